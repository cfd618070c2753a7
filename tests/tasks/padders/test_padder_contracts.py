"""Apply the contract of padders to every padder."""

from tests.contracts import PadderContract


class TestAls(PadderContract):
    name = "als"


class TestBiases(PadderContract):
    name = "biases"
