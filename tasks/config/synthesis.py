"""[synthesis]: how method 'dp-synthetic' measures the ratings with noise, and draws rows from what it measured."""

from pydantic import Field, model_validator

from tasks.config.base import Settings


class Synthesis(Settings):
    """Hold the settings of the mechanism; they are public and must not be chosen by looking at the data."""

    items: int | None = Field(
        default=None,
        ge=2,
        le=20_000,
        description="the most items that are released; absent: a number that follows the noisy number of users",
    )
    row_weight: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="people with more chosen items than this count for less each (c)",
    )
    choice_share: float = Field(default=0.2, gt=0, lt=1, description="of the budget, for the choice of items")
    totals_share: float = Field(
        default=0.02,
        gt=0,
        lt=1,
        description="of the budget, for the number of people and the lengths of rows",
    )
    ratings_share: float = Field(
        default=0.08, gt=0, lt=1, description="of the budget, for the ratings; the rest is for pairs of items"
    )
    rows: int | None = Field(
        default=None, ge=1, description="synthetic rows; absent: as many as the noisy number of users"
    )

    @property
    def pairs_share(self) -> float:
        """Return the share of the budget for pairs of items: what is left."""
        return 1 - self.choice_share - self.totals_share - self.ratings_share

    @model_validator(mode="after")
    def _consistent(self) -> "Synthesis":
        if self.pairs_share <= 0:
            raise ValueError(
                "choice_share, totals_share and ratings_share leave nothing for pairs of items; lower one of them"
            )
        return self
