"""Test the judge's own table of what each method may publish."""

import pytest

from checks.evidence.method_rules import STRICTEST, MethodRules, rules_of


@pytest.mark.parametrize(
    ("method", "rules"),
    [
        ("predictive-padded", MethodRules("group")),
        ("microaggregation", MethodRules("group")),
        ("perturbation", MethodRules("person", verbatim=False, z_scores=True)),
        ("suppression", MethodRules("person", verbatim=True, z_scores=False)),
        ("obfuscation", MethodRules("person", verbatim=True, z_scores=False)),
    ],
)
def test_what_a_method_may_publish(method, rules):
    assert rules_of(method) == rules
    assert rules_of(method).publishes_persons == (rules.unit == "person")


@pytest.mark.parametrize("method", ["a-plug-in", "Perturbation", "", None, 3, ["perturbation"]])
def test_what_is_not_in_the_table_gets_the_strictest_rules(method):
    assert rules_of(method) is STRICTEST
    assert not STRICTEST.publishes_persons
    assert not STRICTEST.verbatim
    assert not STRICTEST.z_scores
