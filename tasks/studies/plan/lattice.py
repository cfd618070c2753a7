"""Choose which settings to try: as few as possible, because each costs a release and a whole gate.

Every axis is ordered by how much it protects. A setting is weaker than another if it protects no more on any axis and
less on one. Two rules save trials; both are assumptions that the trials themselves can contradict, and the answer says
which settings they left out:

- what is weaker than a refused setting is refused, too;
- what is stronger than a passed setting loses no less, so it is not worth a trial.

First comes the release file's own setting; where it passes, the weakest of all: if that passes too, everything is
decided. After that the next trial is the one that leaves the fewest settings open in the worse case, as in a binary
search.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import product
from typing import Any

Setting = tuple[int, ...]  # the position on every axis


@dataclass(frozen=True)
class Axis:
    """Hold a key of the release file and the values to try, the weakest protection first."""

    key: str
    values: tuple[Any, ...]


@dataclass
class Search:
    """Hold what was tried and what follows from it."""

    axes: tuple[Axis, ...]
    base: Setting
    passed: list[Setting] = field(default_factory=list)
    refused: list[tuple[Setting, frozenset[str]]] = field(
        default_factory=list
    )  # with axes that may help or harm

    @property
    def size(self) -> int:
        """Return how many settings there are."""
        found = 1
        for axis in self.axes:
            found *= len(axis.values)
        return found

    def open(self) -> list[Setting]:
        """Return the settings that were not tried and that nothing tried decides."""
        return [
            one for one in product(*(range(len(axis.values)) for axis in self.axes)) if self._is_open(one)
        ]

    def next(self) -> Setting | None:
        """Return the setting to try next: the release file's own first; None where all are decided."""
        left = self.open()
        if self.base in left and not self.passed and not self.refused:
            return self.base
        weakest = (0,) * len(self.axes)
        if self.passed == [self.base] and not self.refused and weakest in left:
            return weakest
        return max(left, key=lambda one: (self._decides(one, left), -self._distance(one)), default=None)

    def record(self, setting: Setting, *, passed: bool, unordered: Collection[str] = ()) -> None:
        """Enter a result. Of a refusal, `unordered` are keys of axes on which weaker values may do better."""
        if passed:
            self.passed.append(setting)
        else:
            self.refused.append((setting, frozenset(unordered)))

    def is_refused(self, setting: Setting) -> bool:
        """Return whether a setting counts as refused, because it was or a stronger one was."""
        return any(self._follows(setting, one, unordered) for one, unordered in self.refused)

    def values(self, setting: Setting) -> dict[str, Any]:
        """Return the values of a setting by their keys."""
        return {axis.key: axis.values[place] for axis, place in zip(self.axes, setting, strict=True)}

    def _is_open(self, setting: Setting) -> bool:
        if any(_no_weaker(setting, one) for one in self.passed):
            return False
        return not self.is_refused(setting)

    def _follows(self, setting: Setting, refused: Setting, unordered: frozenset[str]) -> bool:
        """Return whether a setting is refused because another one was."""
        pairs = zip(self.axes, setting, refused, strict=True)
        return all(mine == its if axis.key in unordered else mine <= its for axis, mine, its in pairs)

    def _decides(self, setting: Setting, left: list[Setting]) -> int:
        """Return how many open settings a trial decides at least."""
        if_passed = sum(_no_weaker(one, setting) for one in left)
        if_refused = sum(_no_weaker(setting, one) for one in left)
        return min(if_passed, if_refused)

    def _distance(self, setting: Setting) -> int:
        return sum(abs(a - b) for a, b in zip(setting, self.base, strict=True))


def _no_weaker(one: Setting, other: Setting) -> bool:
    """Return whether a setting protects at least as much as another on every axis."""
    return all(a >= b for a, b in zip(one, other, strict=True))
