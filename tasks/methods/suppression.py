"""Suppression: publish every person's own record without rarely rated items ([Frankowski2006], section 5)."""

from tasks.methods._base import (
    NEEDS_PREDICTIONS,
    PUBLISH_GROUPS,
    Method,
    Words,
    single_person_steps,
)

METHOD = Method(
    name="suppression",
    summary="every person's own record without rarely rated items; expect the gate to refuse it",
    unit="person",
    steps=single_person_steps,
    removal_step="suppression",
    grouping="single",
    profiler="verbatim",
    words=Words(
        publishes="Every person is published under a pseudonym with what they rated, except for the items that few "
        "people rated.",
        record_holds="with the ratings the person gave",
        protection="what was left out",
        caution="Items that few people rated are missing, and so are people who rated nothing else.",
        together="what one leaves out another may hold",
        only_rated_items=True,
    ),
    remedy=PUBLISH_GROUPS,
    tables=("suppression",),
    incompatible={
        **NEEDS_PREDICTIONS,
        "obfuscation": "publishes what people rated, and its search for the smallest share would judge made-up "
        "ratings; use method 'obfuscation', or remove [obfuscation]",
    },
    plot_marker="v",
)
