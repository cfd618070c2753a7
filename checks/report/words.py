"""Hold the sentences about a method that a report and a README need.

The method declares them (tasks/methods) and `validate` passes them in: the judge does not import what it judges.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class MethodWords:
    """Describe what a method publishes, for people who read a release.

    `publishes` is one sentence for every method. The others describe records of single persons: what a record holds,
    what protects its owner, what a user of the records must know, and why several releases together are a risk.
    `only_rated_items`: an item of such a record was certainly rated by its owner. `changed` says what a step did to
    the ratings before anything else saw them.
    """

    publishes: str = "People are published under pseudonyms with ratings changed by the method named below."
    record_holds: str = "with other values than the person gave"
    protection: str = "that values cannot be trusted one by one"
    caution: str = (
        "A single value is unreliable; patterns that many values share are not. Train models on the records; do not "
        "interpret single values."
    )
    together: str = "noise that is drawn again in each release can be averaged away"
    only_rated_items: bool = False
    changed: str = ""

    @property
    def about(self) -> str:
        """Join what is published with what was changed before."""
        return f"{self.publishes} {self.changed}".strip()
