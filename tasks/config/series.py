"""[series]: how this release relates to other releases about the same people (docs/series.md)."""

from typing import Literal

from pydantic import Field

from tasks.config.base import Settings

Mode = Literal["sticky", "independent"]

# An attacker who wants to be alone with one newcomer must supply all others of a cohort: with fewer than these
# people, accounts that are made up for the purpose are cheap (docs/series.md, "Who waits").
FEWEST_NEWCOMERS = 50
NEWCOMERS_PER_K = 4


class Series(Settings):
    """Hold the mode of a series of releases, the population it is about, and which newcomers wait."""

    mode: Mode | None = Field(
        default=None,
        description="sticky: groups are published once and carried over; independent: one release, no second one. "
        "Absent: sticky, and independent for methods that publish records of single people or synthetic rows",
    )
    population: str | None = None
    min_cohort: int | None = Field(
        default=None,
        ge=2,
        description="newcomers wait until so many are eligible; absent: 4 k, at least 50",
    )
    waiting_days: int = Field(
        default=0, ge=0, description="days between a person's first rating and their release"
    )
    min_ratings: int = Field(default=1, ge=1, description="ratings a person needs to be released")
    pool_survivors: bool = Field(
        default=False,
        description="release survivors of erasures again, in pools: an attacker who links a survivor's two groups can "
        "average their profiles",
    )
    departure: Literal["keep", "erase"] = Field(
        default="keep",
        description="released people who are missing from the source: republished unchanged, or to be erased",
    )

    refused_cohort: Literal["wait", "refuse"] = Field(
        default="wait",
        description="newcomers whom the gate refuses: they wait, and carried-over groups are published without them; "
        "refuse: the whole snapshot is refused",
    )

    def fewest_newcomers(self, k: int) -> int:
        """Return how many eligible newcomers make a cohort."""
        return self.min_cohort or max(FEWEST_NEWCOMERS, NEWCOMERS_PER_K * k)
