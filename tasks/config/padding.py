"""[padding]: the model that predicts what people did not rate."""

from typing import Literal

from pydantic import Field, field_validator, model_validator

from tasks.config.base import Settings


class Padding(Settings):
    """Hold the settings of predictive padding ([Chang2009], section 4.1)."""

    predictor: Literal["als", "biases"] = "als"
    rank: int = Field(default=8, ge=1, le=256)
    regularization: float = Field(
        default=0.04, gt=0, description="for a scale that spans 4 units; grows with it"
    )
    iterations: int = Field(default=10, ge=1, le=200)
    phantom_raters: int = Field(
        default=40,
        ge=0,
        le=10_000,
        description="raters made of noise that each item has beside its real ones; 0 = none, as in [Chang2009]",
    )
    level_only_below: int = Field(
        default=50,
        ge=0,
        description="items with fewer raters show their level alone, the same shift for every group",
    )
    keep_observed: bool = Field(
        default=False,
        description="true keeps observed ratings in the padded data, as in Algorithm 1 of [Chang2009]",
    )
    neutral: tuple[str, ...] = Field(
        default=(),
        description="user attributes that predictions must not reveal: predictive-padded with keep_observed = false",
    )

    @field_validator("neutral", mode="before")
    @classmethod
    def _names_as_tuple(cls, value: object) -> object:
        return tuple(dict.fromkeys(value)) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _consistent(self) -> "Padding":
        if self.neutral and self.keep_observed:
            raise ValueError(
                "neutral: keep_observed publishes what people rated, which reveals the attribute in spite of neutral "
                "predictions; keep one of them"
            )
        return self
