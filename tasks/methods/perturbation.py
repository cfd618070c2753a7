"""Perturbation: publish every person's own record, disguised with noise ([Zhang2006], section 3; [Casino2015]: GNA)."""

from tasks.methods._base import PUBLISH_GROUPS, Method, Words, single_person_steps

METHOD = Method(
    name="perturbation",
    summary="every person's own record with noise; expect the gate to refuse it",
    unit="person",
    steps=single_person_steps,
    grouping="single",
    profiler="perturbation",
    words=Words(
        publishes="Every person is published under a pseudonym with a record of their own, every value of which is "
        "disguised with random noise."
    ),
    remedy=f"more noise does not help: no strength that keeps the records useful has passed; {PUBLISH_GROUPS}",
    tables=("perturbation", "obfuscation"),
    plot_marker="^",
)
