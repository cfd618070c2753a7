"""Hold what each method may publish: the judge's own table, independent of the methods' code.

The judge must not import what it judges, so it does not ask tasks/methods. A method that is not in the table gets the
strictest rules: groups of at least k people, nothing verbatim, ratings on the scale. A new method therefore needs no
entry here unless it must be allowed more.
"""

from dataclasses import dataclass
from typing import Literal

Unit = Literal["group", "person", "synthetic"]


@dataclass(frozen=True)
class MethodRules:
    """Say what a method may publish.

    `unit`: a record stands for a group of at least k people, or for one person, whom the re-identification attacks
    then judge instead of k, or is a synthetic row, which is nobody's: what is published about people is then the output
    of a differentially private mechanism, and everything else in public must be free of figures measured on the data.
    `verbatim`: ratings may be published as the person gave them, so nothing is disguised that
    a reconstruction could undo. `z_scores`: values may be z-scores instead of ratings.
    """

    unit: Unit = "group"
    verbatim: bool = False
    z_scores: bool = False

    @property
    def publishes_persons(self) -> bool:
        """Return whether a record may be one person's."""
        return self.unit == "person"

    @property
    def is_synthetic(self) -> bool:
        """Return whether the records are synthetic rows, and nobody is in the release."""
        return self.unit == "synthetic"


STRICTEST = MethodRules()
_RULES = {
    "predictive-padded": STRICTEST,
    "predictive-simple": STRICTEST,
    "predictive-boosted": STRICTEST,
    "microaggregation": STRICTEST,
    "perturbation": MethodRules(unit="person", z_scores=True),
    "suppression": MethodRules(unit="person", verbatim=True),
    "obfuscation": MethodRules(unit="person", verbatim=True),
    "dp-synthetic": MethodRules(unit="synthetic"),
}


def rules_of(method: object) -> MethodRules:
    """Return the rules for a method as a manifest names it; the strictest for any other text or value."""
    return _RULES.get(method, STRICTEST) if isinstance(method, str) else STRICTEST
