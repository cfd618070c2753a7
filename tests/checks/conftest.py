"""Provide releases to judge, made once."""

import copy
import tempfile
from pathlib import Path

import made_releases as made
import pytest

RARE = 21


@pytest.fixture(scope="session")
def ratings():
    return made.synthetic()


REG = 0.4  # with a tenth of it, members of these small data are distinguished from absent people


@pytest.fixture(scope="session")
def models(ratings):
    """The padding model with the rare-item rule, and without it.

    Items with up to 20 raters take no part in it: fitted without noise, their columns reveal opinions (rare-items).
    """
    return {
        name: made.fit(ratings, rank=4, rare=rare, reg=REG)
        for name, rare in (("ruled", RARE), ("unruled", 0))
    }


@pytest.fixture(scope="session")
def releases(ratings, models):
    """Good and bad releases of the same ratings, by name."""
    make: dict[str, dict] = {
        "padded": {},
        "simple": {"shape": "simple"},
        "observed kept": {"keep_observed": True, "c": 1},
        "single contributors": {"shape": "simple", "c": 1},
    }
    ruled = {"model": models["ruled"], "rare": RARE, "reg": REG}
    return {name: made.grouped(ratings, 5, **ruled, **how) for name, how in make.items()}


@pytest.fixture
def case(releases, tmp_path):
    """Put one of the releases on disk and open it."""

    def build(name: str = "padded"):
        return made.case(releases[name], Path(tempfile.mkdtemp(dir=tmp_path)))

    return build


@pytest.fixture
def violated(releases, tmp_path):
    """Build a release whose files were changed: build(name, change) → (published, private, release)."""

    def build(change, name: str = "padded", *, seal: bool = True):
        release = copy.deepcopy(releases[name])
        published, private = made.write(release, tmp_path / "violated")
        change(published, private)
        if seal:
            made.seal(published)
        return published, private, release

    return build
