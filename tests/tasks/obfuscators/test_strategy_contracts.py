"""Apply the contract of strategies to every strategy of obfuscation."""

from tests.contracts import StrategyContract


class TestGreedy(StrategyContract):
    name = "greedy"


class TestMatched(StrategyContract):
    name = "matched"


class TestRandom(StrategyContract):
    name = "random"


class TestRfpp(StrategyContract):
    name = "rfpp"


class TestWeinsberg(StrategyContract):
    name = "weinsberg"
