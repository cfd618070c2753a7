"""Hold what a report says about earlier releases of the same people, and what only the owner's edition says.

The pipeline passes it in: the judge does not import what it judges, and a public report may depend only on what can
never change afterwards (docs/verdict.md, "Reports").
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PastRelease:
    """Describe one release of the series as it was when it was published; `alike` is the smallest number of people who
    are alike in all releases up to it, where the owner's files have it."""

    snapshot: str
    people: int
    groups: int
    new_people: int
    state: str = ""
    alike: int | None = None

    def figures(self, *, owner: bool) -> tuple[str, ...]:
        """Return its figures in words."""
        counts = (f"{self.people:,}", f"{self.new_people:,}", f"{self.groups:,}")
        alike = "not known" if self.alike is None else f"{self.alike:,}"
        return (*counts, alike, self.state) if owner else counts


@dataclass(frozen=True)
class Past:
    """Hold the earlier releases of a series, oldest first, and what has changed since the last one.

    `new_people` and `carried_groups` are of the release that is reported. `waiting`, `withdrawn` and `budget` are for
    the owner alone.
    """

    releases: tuple[PastRelease, ...] = ()
    new_people: int = 0
    new_groups: int = 0
    carried_groups: int = 0
    waiting: int | None = None
    withdrawn: int | None = None
    budget: tuple[str, ...] = ()

    def columns(self, *, owner: bool) -> tuple[str, ...]:
        """Return the heads of the table of earlier releases."""
        return ("Snapshot", "People", "New", "Groups", *(("Alike in all releases", "State") if owner else ()))

    def table(self, *, owner: bool) -> list[tuple[str, tuple[str, ...]]]:
        """Return a row for every earlier release."""
        return [(one.snapshot, one.figures(owner=owner)) for one in self.releases]


@dataclass(frozen=True)
class OwnerFacts:
    """Hold what the owner's edition has besides: what to do, notes, settings that differ from the defaults, the version
    of the program, and the series with figures that are not public."""

    remedy: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    code: str = ""
    past: Past | None = None
