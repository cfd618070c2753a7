"""[privacy]: the method and the protection it promises."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from tasks.config import plugins
from tasks.config.base import Settings
from tasks.config.budget import Budget

METHODS_PACKAGE = "tasks.methods"
LEAST_K_OF_SUPPORT = 10
LEAST_ROUNDING = 3


def method_names() -> list[str]:
    """Return the names of all methods, from their files."""
    return plugins.names(METHODS_PACKAGE)


def _known_method(name: str) -> str:
    return plugins.known(METHODS_PACKAGE, name, "method")


class Privacy(Settings):
    """Hold what is promised to the people in the data ([Chang2009], sections 3.2 and 5.1)."""

    method: Annotated[str, AfterValidator(_known_method)] = "predictive-padded"
    k: int = Field(default=5, ge=2, description="every released profile is shared by at least k users")
    l: int = Field(default=2, ge=1, description="every item (b-set of items) occurs in at least l groups")  # noqa: E741
    b: int = Field(default=1, ge=1, le=4, description="how many items of a person the attacker knows")
    min_contributors: int = Field(
        default=3, ge=1, description="fewer real ratings than this never enter a cell"
    )
    protect: list[str] = []
    budget: Budget | None = None
    rating_step: float = Field(default=0.1, gt=0, description="published ratings are rounded to this")
    density: float = Field(default=0.2, ge=0, le=1, description="predictive-boosted: 0 = simple, 1 = padded")
    clip_groups: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="quantile of the groups' distance from the mean taste to which outlying groups are moved; 1 = none",
    )
    max_growth: float = Field(
        default=0.5,
        ge=0,
        description="top-up may add at most this share of the released cells before the run is refused",
    )
    support: bool = Field(
        default=False,
        description="also publish how many members rated an item, where that is safe; needs k of at least 10",
    )

    @model_validator(mode="after")
    def _support_is_safe(self) -> "Privacy":
        """Refuse settings with which counts would identify links, or none could be published."""
        if not self.support:
            return self
        if self.k < LEAST_K_OF_SUPPORT:
            raise ValueError(
                f"support needs k of at least {LEAST_K_OF_SUPPORT}, found k = {self.k}: in a smaller group a count "
                "nearly names who rated the item; "
                f"raise privacy.k to {LEAST_K_OF_SUPPORT} or more, or remove support"
            )
        if self.min_contributors < LEAST_ROUNDING:
            raise ValueError(
                f"support is rounded to multiples of min_contributors, and {self.min_contributors} would publish "
                f"(nearly) exact counts; raise privacy.min_contributors to {LEAST_ROUNDING} or more, or remove support"
            )
        if 2 * self.min_contributors > self.k:
            raise ValueError(
                "support publishes counts from min_contributors on, and a blank cell must mean that less than half of "
                f"a group rated the item: {self.min_contributors} is more than half of k = {self.k}; lower "
                "privacy.min_contributors, raise privacy.k or remove support"
            )
        return self
