"""Re-estimate the profiles of a published release from the releases of the series before it (kernels/refinement.py).

Only published files are read. Which groups are new in a release shows which cohort they belong to.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tasks.data import profiles
from tasks.data.public_prior import SEED, PublishedRelease, cohorts, first_of_each
from tasks.errors import UsageError
from tasks.kernels.padded import encode
from tasks.kernels.public_prior import Block, Prior, find_prior, nothing_known
from tasks.kernels.refinement import Refinement
from tasks.store import read_json

RANK = 8  # the default of padding.rank; further directions of a profile are rounding errors


@dataclass(frozen=True)
class Refiner:
    """Hold what the cohorts of a series say about the items of its newest release."""

    newest: PublishedRelease
    cohort: dict[bytes, int]  # of each profile
    steps: tuple[Refinement | None, ...]  # of each cohort; None: its profiles stay as they are
    scale: tuple[float, float]
    rating_step: float | None

    @classmethod
    def of(cls, earlier: Sequence[Path], newest: Path, rank: int = RANK) -> "Refiner":
        """Read the releases of a series, earlier ones in the order of publication."""
        item_ids = pq.read_table(newest / "items.parquet").column("item").to_pylist()
        releases = [PublishedRelease.open(place, item_ids) for place in (*earlier, newest)]
        cohort: dict[bytes, int] = {}
        found: list[Prior] = []
        everybody = nothing_known(len(item_ids), rank)
        new_in = first_of_each(releases)
        for release, rows, blocks in cohorts(releases, new_in):
            _require_padded(blocks, newest)
            own = find_prior(blocks, len(item_ids), rank, np.random.default_rng(SEED))
            everybody = everybody.followed_by(own)
            for position, digest in enumerate(release.digests()):
                if rows is None or rows[position]:
                    cohort.setdefault(digest, len(found))
            found.append(own)
        steps = [Refinement.between(own, everybody) for own in found[:-1]]
        manifest = read_json(newest / "manifest.json")
        low, high = manifest["rating_scale"]
        return cls(releases[-1], cohort, (*steps, None), (low, high), manifest["rating_step"])

    def refined(self, block: profiles.Profiles) -> profiles.Profiles:
        """Return the profiles of a block with new ratings for the items that they hold, in the release's steps."""
        table = self.newest.table(block)
        numbers = np.array([self.cohort[digest] for digest in self.newest.digests_of(block)])
        for number in np.unique(numbers).tolist():
            step, here = self.steps[number], numbers == number
            if step is not None:
                new = step.values(table[here])
                table[here] = np.where(np.isnan(table[here]) | np.isnan(new), table[here], new)
        if block.items is None:
            values = table.reshape(-1)
        else:
            row = np.repeat(np.arange(len(table)), block.lengths)
            values = table[row, block.items]
        if self.rating_step is None:
            return replace(block, codes=np.clip(values, *self.scale).astype(block.codes.dtype))
        codes = encode(values, self.scale, self.rating_step)
        return replace(block, codes=codes.astype(block.codes.dtype))


def _require_padded(blocks: Callable[[], Iterator[Block]], where: Path) -> None:
    """Refuse a cohort whose groups hold different items: its values are means of ratings, not a model's."""
    first: np.ndarray | None = None
    for values, _ in blocks():
        held = ~np.isnan(values)
        first = held[0] if first is None else first
        if (held != first).any():
            raise UsageError(
                "only profiles of padded releases can be re-estimated",
                where=str(where),
                remedy="leave --earlier out",
            )
