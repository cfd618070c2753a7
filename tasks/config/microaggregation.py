"""[microaggregation]: groups of the k nearest records, published as their centroid ([Casino2015])."""

from typing import Literal

from pydantic import Field, model_validator

from tasks.config.base import Settings

GAMMA = 0.2


class Microaggregation(Settings):
    """Hold imputation, MDAV or V-MDAV, and how many records are compared at once ([Casino2015], sections 3 and 6)."""

    imputation: Literal["model", "central", "item-mean", "user-mean"] = Field(
        default="model",
        description="what replaces a missing rating: the padding model's prediction, the centre of the scale "
        "(as in [Casino2015]), the item's mean or the user's mean",
    )
    variable: bool = Field(
        default=False, description="true: V-MDAV, groups grow beyond k where their neighbours are near"
    )
    gamma: float = Field(
        default=GAMMA, ge=0, description="V-MDAV: how readily a group takes in a further user; 0 = never"
    )
    within_bins: bool = Field(
        default=False,
        description="true: inside the bins of similar users, for more people than MDAV's quadratic cost allows",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Microaggregation":
        if not self.variable and self.gamma != GAMMA:
            raise ValueError("gamma: only V-MDAV has it; set variable = true as well, or remove gamma")
        return self
