"""Obfuscation: publish every person's own record with made-up ratings that hide an attribute ([RFPP])."""

from tasks.config import ReleaseConfig
from tasks.methods._base import PUBLISH_GROUPS, Method, Words, single_person_steps


def _check(config: ReleaseConfig) -> None:
    """Refuse to hide nothing: without an attribute the records would be published as they are."""
    if config.obfuscation.attribute is None:
        raise ValueError(
            "obfuscation.attribute: method 'obfuscation' must know what to hide; name a user attribute of the "
            'source, such as "gender"'
        )


METHOD = Method(
    name="obfuscation",
    summary="every person's own record, made-up ratings hide an attribute; expect the gate to refuse it",
    unit="person",
    steps=single_person_steps,
    grouping="single",
    profiler="verbatim",
    words=Words(
        publishes="Every person is published under a pseudonym with what they rated and with made-up ratings.",
        record_holds="with the ratings the person gave and made-up ones",
        protection="that nobody can see which ratings are made up",
        caution="Some ratings are made up. Train on them, do not read them one by one.",
        together="what is in one and not in the other may be made up",
    ),
    remedy=PUBLISH_GROUPS,
    tables=("obfuscation",),
    check=_check,
    plot_marker="P",
)
