"""[microaggregation]: groups of k nearest records, published as their centroid (paper 003)."""

from typing import Literal

from pydantic import Field, model_validator

from tasks.config.base import Settings
from tasks.config.privacy import Privacy

GAMMA = 0.2


class Microaggregation(Settings):
    """Imputation, MDAV or V-MDAV, and how far it reaches (paper 003, sections 3 and 6)."""

    imputation: Literal["model", "central", "item-mean", "user-mean"] = Field(
        default="model",
        description="what stands for a missing rating: the padding model's prediction, the centre of the scale "
        "(the paper's choice), the item's or the user's mean",
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
    def _possible(self) -> "Microaggregation":
        if not self.variable and self.gamma != GAMMA:
            raise ValueError("gamma: only V-MDAV has it; set variable = true as well, or remove gamma")
        return self

    def check(self, privacy: Privacy) -> None:
        """Refuse what would publish nothing of what people rated."""
        if self.imputation != "model" and privacy.min_contributors > privacy.k:
            raise ValueError(
                f"privacy.min_contributors {privacy.min_contributors} exceeds privacy.k {privacy.k}: with "
                f"microaggregation.imputation '{self.imputation}' groups of {privacy.k} would publish imputed values "
                "only; raise k, lower min_contributors or use imputation 'model'"
            )
