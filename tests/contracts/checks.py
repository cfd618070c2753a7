"""Test what every check of the gate must keep (checks/privacy, checks/attacks, checks/series, checks/utility)."""

from collections.abc import Callable
from typing import ClassVar

import pytest

from checks.evidence.case import Case
from checks.reconstruction.estimated_ratings import ratings_view
from checks.registry import Check, registered
from checks.result import Finding
from tasks.config.gate import AT_LEAST, check_names
from tasks.engine import single_threaded

Opener = Callable[..., Case]


class CheckContract:
    """Require that a check fails on a planted violation, passes where there is none, and finds the same each time.

    A subclass says which releases those are. `opened(name_or_release)` puts a release on disk and opens it.
    """

    name: ClassVar[str]

    def violation(self, opened: Opener) -> Case:
        """Return a release with what this check exists to find."""
        raise NotImplementedError

    def harmless(self, opened: Opener) -> Case:
        """Return a release without it."""
        return opened("padded")

    @property
    def check(self) -> Check:
        """Return the registered check."""
        return registered()[self.name]

    def run(self, case: Case) -> Finding:
        """Run the check as the gate does, at its own threshold."""
        with single_threaded():
            return self.check.run(
                case if self.check.as_published else ratings_view(case), self.check.threshold
            )

    @pytest.fixture(scope="class")
    def found(self, open_release) -> Finding:
        """Return what the check finds in the planted violation."""
        return self.run(self.violation(open_release))

    def test_registered(self):
        """The check is called after its file, has a threshold and says what it measures."""
        check = self.check
        assert self.name in check_names()
        assert check.name == self.name
        assert check.severity in ("gate", "advisory")
        assert check.threshold >= 0
        assert check.larger_is_safer == (self.name in AT_LEAST)
        assert check.run.__doc__

    def test_violation(self, found):
        """A planted violation is found by what was measured, not because nothing could be measured."""
        assert isinstance(found, Finding)
        assert not found.passed
        assert found.applicable, "what it refuses, it can find"
        assert found.control is not False, "the positive control is dead"
        assert found.planned in (None, found.n), "fewer trials than planned"

    def test_control(self, found):
        """An attack that must bring a positive control brings it."""
        assert (found.control is not None) == self.check.controlled

    def test_figures(self, found):
        """The finding has a figure inside its interval, and words that name no user."""
        assert found.observed is not None
        assert found.n > 0
        if found.ci_low is not None:
            assert found.ci_low - 1e-9 <= found.observed <= found.ci_high + 1e-9
        assert found.detail
        assert "person " not in found.detail

    def test_harmless(self, open_release):
        """A release without the violation passes."""
        answer = self.run(self.harmless(open_release))
        assert answer.passed, answer.detail
        assert answer.control is not False

    def test_deterministic(self, found, open_release):
        """A second look at the same release finds the same."""
        assert self.run(self.violation(open_release)) == found
