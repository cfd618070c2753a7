"""[privacy.budget]: how much the releases of method 'dp-synthetic' may disclose about one person ([Dwork2006])."""

from typing import Literal

from pydantic import Field, model_validator

from tasks.config.base import Settings


class Budget(Settings):
    """Hold the (ε, δ) of user-level differential privacy, and the releases that share it equally."""

    epsilon: float = Field(
        gt=0,
        le=20,
        description="the most by which one person's ratings change the logarithm of the probability of any result",
    )
    delta: float = Field(
        default=1e-5, gt=0, le=1e-3, description="the probability with which epsilon may be exceeded"
    )
    per: Literal["release", "year", "population"] = Field(
        default="release",
        description="what the budget is for: each release, all releases of a calendar year, or all there will ever be",
    )
    releases: int = Field(default=1, ge=1, description="how many releases share the budget equally")

    @model_validator(mode="after")
    def _consistent(self) -> "Budget":
        if self.per == "release" and self.releases != 1:
            raise ValueError(
                f"releases: {self.releases} releases cannot share a budget per release; "
                'set per = "year" or per = "population", or remove releases'
            )
        return self
