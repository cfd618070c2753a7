"""Apply the contract of methods to every method."""

from typing import ClassVar

from tests.contracts import MethodContract


class TestPredictivePadded(MethodContract):
    name = "predictive-padded"


class TestPredictiveSimple(MethodContract):
    name = "predictive-simple"


class TestPredictiveBoosted(MethodContract):
    name = "predictive-boosted"


class TestMicroaggregation(MethodContract):
    name = "microaggregation"


class TestPerturbation(MethodContract):
    name = "perturbation"
    published = False


class TestObfuscation(MethodContract):
    name = "obfuscation"
    tables: ClassVar = {"obfuscation": {"attribute": "gender"}}
    published = False


class TestDpSynthetic(MethodContract):
    name = "dp-synthetic"
    people = 2000
    published = (
        False  # EASE ranks the sample's own ratings hardly better than popularity does, so no release can
    )
    tables: ClassVar = {"privacy": {"budget": {"epsilon": 10.0}}, "synthesis": {"rows": 2000}}


class TestSuppression(MethodContract):
    name = "suppression"
    tables: ClassVar = {"suppression": {"share": 0.5}}
    published = False
