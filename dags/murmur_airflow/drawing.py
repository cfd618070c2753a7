"""Draw the graph of a release: groups of boxes, and only the edges that the order needs."""

from collections.abc import Mapping

from airflow.sdk import TaskGroup

APPROVE = "approve"

# Airflow lists groups in the order of their ids where a task in the middle of a group waits for another group. No id
# may be that of a task.
ANONYMIZE, JUDGE, PUBLISH = "1_anonymize", "2_judge", "3_publish"
GROUPS = {
    ANONYMIZE: ("anonymize", "make the anonymous records"),
    JUDGE: ("judge", "measure utility, attack the candidate, decide"),
    PUBLISH: ("publish", "let a person approve where the release asks for it, and publish"),
}
_GROUP_OF = {
    "ingest": None,  # read for all groups
    "evaluate": JUDGE,
    "validate": JUDGE,
    APPROVE: PUBLISH,
    "publish": PUBLISH,
}


def needed_edges(steps: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """Return for every step the steps it must wait for that no other of them waits for already.

    A step reads the results of more steps than it has edges: of `a → b → c` and `a → c` the last says nothing about
    the order, and seven such edges into one box hide the others.
    """
    before: dict[str, set[str]] = {}
    for step, needed in steps.items():  # the graph names a step after those it waits for
        before[step] = set(needed).union(*(before[one] for one in needed))
    return {
        step: [one for one in needed if not any(one in before[other] for other in needed)]
        for step, needed in steps.items()
    }


def with_approval(steps: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Insert a person's decision between verdict and publication."""
    before = {name: needed for name, needed in steps.items() if name != "publish"}
    return {**before, APPROVE: ("validate",), "publish": (*steps["publish"], APPROVE)}


def group_of(step: str) -> str | None:
    """Return the group a step is drawn in; every step that makes the records belongs to the first."""
    return _GROUP_OF.get(step, ANONYMIZE)


def make_groups() -> dict[str, TaskGroup]:
    """Return the groups of the DAG being made; the ids of tasks stay as they are."""
    return {
        group: TaskGroup(group, group_display_name=title, prefix_group_id=False, tooltip=tooltip)
        for group, (title, tooltip) in GROUPS.items()
    }
