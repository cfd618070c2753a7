"""Name other ways to release that `murmur plan` tries beside the settings of the release file's own method.

A method is not a setting: what is promised differs (a profile shared by k people, or rows that are nobody's under a
budget), so the choice is the owner's, and a search for the smallest loss must not make it. Each is tried once.
"""

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.errors import UsageError
from tasks.studies.compare.entries import Entry, parse_entries

SUPPORT_K = 20  # fewer people to a group leave few counts that may be shown
EPSILONS = (1, 3, 10)


def other_ways(config: ReleaseConfig, users: int) -> list[Entry]:
    """Return other methods of groups with the release file's own k, counts of raters, and synthetic rows."""
    privacy = config.privacy
    grouped = [
        name
        for name, method in sorted(methods.registered().items())
        if method.unit == "group" and name != privacy.method
    ]
    support_k = max(SUPPORT_K, privacy.k)
    counted = [] if privacy.support else [f"predictive-padded:k={support_k}:support=true"]
    texts = [*grouped, *counted, *(f"dp-synthetic:epsilon={epsilon}" for epsilon in EPSILONS)]
    return [entry for text in texts for entry in _possible(text, config, users)]


def _possible(text: str, config: ReleaseConfig, users: int) -> list[Entry]:
    """Return the entry, unless the release file's other keys or the number of people exclude it."""
    try:
        (entry,) = parse_entries(text, config)
    except UsageError:
        return []
    needed = entry.config.privacy.k * 2 * max(2, entry.config.privacy.l)
    return [entry] if entry.config.privacy.method == "dp-synthetic" or users >= needed else []
