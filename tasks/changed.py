"""What a step did to the ratings before anything else saw them, in words for whoever reads a release."""

from tasks import methods
from tasks.pipeline import Job
from tasks.store import read_json


def in_words(job: Job) -> str:
    """One sentence, or none where the ratings are as they were ingested. Nothing in it is of a single person."""
    changed = methods.change(job.config)
    if changed is None:
        return ""
    found = read_json(job.inputs[changed] / "step.json")["counts"]
    if changed == "obfuscation":
        return (
            f"First of all made-up ratings were mixed in, {found['added'] / found['source_ratings']:.2%} as many as "
            f"there are real ones, to hide people's {job.config.obfuscation.attribute}; which they are is not told."
        )
    items = found["items"] + found["withheld_items"]
    how = (
        "the smallest share tried that the attacks on single records let pass"
        if found["searched"]
        else "as set"
    )
    return (
        f"Left out are {found['withheld_items'] / items:.1%} of the items ({how}), those with the fewest ratings, and "
        f"with them {1 - found['ratings'] / found['source_ratings']:.1%} of the ratings."
    )
