"""Arrange the figures of ranking for a page: a row for each source of recommendations, a column for each part."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.evidence import shadow_ranking
from checks.report.rendering import number, share
from tasks.errors import Refused

PARTS = {"head": "head items", "tail": "tail items", "light": "light users", "heavy": "heavy users"}
COLUMNS = ("Trained on, asked with", "nDCG@10", "95 % interval", "Recall@10")


@dataclass(frozen=True)
class RankingRow:
    """Hold what one source of recommendations is worth; None where it was not measured."""

    source: str
    ndcg: float | None
    low: float | None
    high: float | None
    recall: float | None
    parts: dict[str, float | None]  # nDCG, by the words for the part

    def figures(self) -> tuple[str, ...]:
        """Return the cells of its row."""
        interval = f"{number(self.low)} to {number(self.high)}" if self.low is not None else "–"
        return (number(self.ndcg), interval, number(self.recall), *map(number, self.parts.values()))


@dataclass(frozen=True)
class Ranking:
    """Hold how much of the ranking quality is kept, for the first screen, and the rows of the table."""

    kept: str
    caption: str
    bars: tuple[tuple[str, float, str], ...]
    rows: list[RankingRow]

    @property
    def columns(self) -> tuple[str, ...]:
        """The heads of the table."""
        return (*COLUMNS, *(f"nDCG@10, {part}" for part in self.rows[0].parts))

    @property
    def table(self) -> list[tuple[str, tuple[str, ...]]]:
        """The rows of the table."""
        return [(row.source, row.figures()) for row in self.rows]


def ranking(utility_dir: Path, *, single: bool) -> Ranking | None:
    """Return the figures of the shadow run's ranking; None: it was not measured."""
    try:
        measured = shadow_ranking.summary(utility_dir)
    except Refused:
        return None
    if not measured:
        return None
    original, own, popularity = (
        measured[f"{name}_ndcg"] for name in ("original", "own_history", "popularity")
    )
    known = {"full data": original, "release": own, "popularity": popularity}
    longest = max((value for value in known.values() if value), default=1.0)
    bars = tuple((name, value / longest, number(value)) for name, value in known.items() if value is not None)
    kept = share(own / original) if own is not None and original else "not measured"
    caption = (
        "of the full data's ranking quality (nDCG@10) by a recommender trained on the release and asked with a "
        f"person's own ratings{_beside_popularity(measured)}."
    )
    return Ranking(kept, caption, bars, ranking_rows(measured, single=single))


def _beside_popularity(figures: dict[str, Any]) -> str:
    """Compare the release with a list of popular items that is the same for everybody, by its interval."""
    low, high, popularity = (
        figures[name] for name in ("own_history_ndcg_low", "own_history_ndcg_high", "popularity_ndcg")
    )
    if low is None or high is None or popularity is None:
        return ""
    if low > popularity:
        return "; better than a list of the most popular items"
    if high < popularity:
        return "; worse than a list of the most popular items"
    return "; about as good as a list of the most popular items"


def ranking_rows(figures: dict[str, Any], *, single: bool) -> list[RankingRow]:
    """Return the rows of `utility.ranking` (checks/evidence/shadow_ranking.py), in the order in which they are read."""
    sources = {
        "original": "original data, own history (never released)",
        "own_history": "release, own history",
        "group_history": "release, the person's record" if single else "release, the group's profile",
        "popularity": "popularity in the original data",
    }
    return [
        RankingRow(
            words,
            figures[f"{source}_ndcg"],
            figures[f"{source}_ndcg_low"],
            figures[f"{source}_ndcg_high"],
            figures[f"{source}_recall"],
            {PARTS[name]: part[f"{source}_ndcg"] for name, part in figures["parts"].items()},
        )
        for source, words in sources.items()
    ]
