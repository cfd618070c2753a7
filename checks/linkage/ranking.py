"""Rank many targets, block by block on the engine: the same numbers whatever the number of workers."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checks.linkage.kernel import FIELDS, KINDS, rank_block
from checks.linkage.knowledge import Knowledge
from checks.linkage.postings import Postings
from checks.linkage.rules import Rule
from tasks.engine import Engine

BLOCK_TARGETS = 256  # every block opens the postings anew and pays for the pages it reads


@dataclass(frozen=True)
class Ranks:
    """Hold per target the rank of the own record (a row of `kernel.FIELDS` each)."""

    table: np.ndarray

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in FIELDS:
            raise AttributeError(name)
        return self.table[:, FIELDS.index(name)]

    def __len__(self) -> int:
        return len(self.table)

    @property
    def group_rank(self) -> np.ndarray:
        """Worst rank of the own record among its ties; ∞ where it is no candidate."""
        return np.where(self.listed > 0, self.better + self.tied, np.inf)

    @property
    def user_rank(self) -> np.ndarray:
        """Worst rank counted in people: all people behind a better or an equal record come first."""
        return np.where(self.listed > 0, self.better_people + self.tied_people, np.inf)

    @property
    def identification(self) -> np.ndarray:
        """Chance of naming the target: 1 / people behind the best records where the own record is one of them.

        Where the own record alone is best this is the group hit ÷ the group's size.
        """
        return np.where(self.top > 0, 1 / np.maximum(self.best_people, 1), 0.0)


def rank(
    postings: Postings,
    rule: Rule,
    known: Knowledge,
    own: np.ndarray,
    *,
    leave_out: np.ndarray | None = None,
    entropic: bool = False,
    engine: Engine | None = None,
) -> Ranks:
    """Rank the own record (−1: none) of every target of `known`; `leave_out` removes one record for each target."""
    no_record = np.full(len(known), -1, dtype=np.int64)
    leave_out = no_record if leave_out is None else leave_out
    blocks = [
        (known.part(start, start + BLOCK_TARGETS), own[start : start + BLOCK_TARGETS],
         leave_out[start : start + BLOCK_TARGETS])
        for start in range(0, len(known), BLOCK_TARGETS)
    ]  # fmt: skip
    parts = (engine or Engine()).map(
        _rank, blocks, directory=postings.directory, rule=rule, entropic=entropic
    )
    return Ranks(np.concatenate(parts) if parts else np.zeros((0, len(FIELDS))))


def _rank(
    block: tuple[Knowledge, np.ndarray, np.ndarray], *, directory: Path, rule: Rule, entropic: bool
) -> np.ndarray:
    known, own, leave_out = block
    postings = Postings(directory)
    out = np.zeros((len(known), len(FIELDS)))
    norms = postings.inverse_norms(rule.weight) if rule.cosine else np.zeros(0, np.float32)
    dated = postings.facts["dated"] and rule.day_width > 0 and known.days is not None
    arrays = (
        postings.array("indptr"), postings.array("rows"), postings.array("codes"), postings.array("days"),
        bool(postings.facts["dense"]), postings.levels, max(1, len(postings.levels)),
    )  # fmt: skip
    rank_block(
        known.indptr, known.items, known.ratings, known.days if dated else np.zeros(0, np.float32),
        own.astype(np.int64), leave_out.astype(np.int64), arrays,
        (rule.weight.astype(np.float32), KINDS[rule.kind], rule.width, rule.day_width if dated else 0.0),
        (norms, postings.lengths, postings.people, float(rule.most_items)),
        rule.all_needed, entropic, out,
    )  # fmt: skip
    return out
