"""Hold the tests that every plug-in of a kind must pass.

A plug-in's test subclasses the contract of its kind, gives the plug-in's name and sample data, and inherits the tests:

    class TestLetterboxd(FormatContract):
        name = "letterboxd"
        file = "ratings.csv"
        content = b"..."
        rows = [("user", "item", 4.5, None)]

tests/test_contracts.py fails when a registered plug-in has no such class.
"""

from tests.contracts.checks import CheckContract
from tests.contracts.formats import FormatContract
from tests.contracts.methods import MethodContract
from tests.contracts.padders import PadderContract
from tests.contracts.recommenders import RecommenderContract
from tests.contracts.strategies import StrategyContract

__all__ = [
    "CheckContract",
    "FormatContract",
    "MethodContract",
    "PadderContract",
    "RecommenderContract",
    "StrategyContract",
]
