"""Hold what each method may publish: the judge's own table, independent of the methods' code.

The judge must not import what it judges, so it does not ask tasks/methods. A method that is not in the table gets the
strictest rules: groups of at least k people, nothing verbatim, ratings on the scale. A new method therefore needs no
entry here unless it must be allowed more.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class MethodRules:
    """Say what a method may publish.

    `unit`: a record stands for a group of at least k people, or for one person, whom the re-identification attacks
    then judge instead of k. `verbatim`: ratings may be published as the person gave them, so nothing is disguised that
    a reconstruction could undo. `z_scores`: values may be z-scores instead of ratings.
    """

    unit: Literal["group", "person"] = "group"
    verbatim: bool = False
    z_scores: bool = False

    @property
    def publishes_persons(self) -> bool:
        """Return whether a record may be one person's."""
        return self.unit == "person"


STRICTEST = MethodRules()
_RULES = {
    "predictive-padded": STRICTEST,
    "predictive-simple": STRICTEST,
    "predictive-boosted": STRICTEST,
    "microaggregation": STRICTEST,
    "perturbation": MethodRules(unit="person", z_scores=True),
    "suppression": MethodRules(unit="person", verbatim=True),
    "obfuscation": MethodRules(unit="person", verbatim=True),
}


def rules_of(method: object) -> MethodRules:
    """Return the rules for a method as a manifest names it; the strictest for any other text or value."""
    return _RULES.get(method, STRICTEST) if isinstance(method, str) else STRICTEST
