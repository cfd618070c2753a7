"""Say what a step did to the ratings before all other steps, for people who read a release."""

from pathlib import Path

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.store import read_json


def change_in_words(config: ReleaseConfig, ratings: Path) -> str:
    """Return one sentence, or none where no step changed the ratings. Nothing in it is about a single person.

    `ratings` is the directory of the ratings that the release was made from.
    """
    changed = methods.changing_step(config)
    if changed is None:
        return ""
    counts = read_json(ratings / "step.json")["counts"]
    if "source_ratings" not in counts:  # the step had nothing to do: all groups are carried over
        return ""
    if changed == methods.method(config).removal_step:
        return _removal_in_words(counts)
    return (
        f"Before all other steps made-up ratings were added, {counts['added'] / counts['source_ratings']:.2%} of the "
        f"number of real ones, to hide people's {config.obfuscation.attribute}; the release does not say which "
        "they are."
    )


def _removal_in_words(counts: dict) -> str:
    items = counts["items"] + counts["withheld_items"]
    share = (
        "the smallest share tried with which the attacks on single records fail"
        if counts["searched"]
        else "a share set by the owner"
    )
    return (
        f"{counts['withheld_items'] / items:.1%} of the items were left out ({share}), those with the fewest ratings, "
        f"and with them {1 - counts['ratings'] / counts['source_ratings']:.1%} of the ratings."
    )
