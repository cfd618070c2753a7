"""[microaggregation]: groups of k nearest records, published as their centroid (paper 003)."""

from typing import Literal

from pydantic import Field

from tasks.config.base import Settings


class Microaggregation(Settings):
    """Imputation, MDAV or V-MDAV, and how far it reaches (paper 003, sections 3 and 6)."""

    imputation: Literal["model", "central", "item-mean", "user-mean"] = Field(
        default="model",
        description="what stands for a missing rating: the padding model's prediction, the centre of the scale "
        "(the paper's choice), the item's or the user's mean",
    )
    variable: bool = Field(default=False, description="true: V-MDAV, groups of k to 2k−1 users")
    gamma: float = Field(
        default=0.2, ge=0, description="V-MDAV: how readily a group takes in a further user; 0 = never"
    )
    within_bins: bool = Field(
        default=False,
        description="true: inside the bins of similar users, for more people than MDAV's quadratic cost allows",
    )
