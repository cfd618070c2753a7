"""[padding]: the model that predicts what people did not rate."""

from typing import Literal

from pydantic import Field, field_validator

from tasks.config.base import Settings
from tasks.config.privacy import Privacy


class Padding(Settings):
    """Predictive padding (paper section 4.1)."""

    predictor: Literal["als", "biases"] = "als"
    rank: int = Field(default=16, ge=1, le=256)
    regularization: float = Field(
        default=0.04, gt=0, description="for a scale that spans 4 units; grows with it"
    )
    iterations: int = Field(default=10, ge=1, le=200)
    keep_observed: bool = Field(
        default=False,
        description="true keeps observed ratings in the padded data, as the paper's Algorithm 1",
    )
    neutral: tuple[str, ...] = Field(
        default=(),
        description="user attributes that predictions shall not tell: predictive-padded with keep_observed = false",
    )

    @field_validator("neutral", mode="before")
    @classmethod
    def _a_list_of_names(cls, value: object) -> object:
        return tuple(dict.fromkeys(value)) if isinstance(value, list) else value

    def check(self, privacy: Privacy) -> None:
        """Refuse to make predictions neutral where more than predictions is published or groups people."""
        if not self.neutral:
            return
        if privacy.method != "predictive-padded":
            raise ValueError(
                f"padding.neutral: method '{privacy.method}' publishes or groups by what people really rated, which "
                "tells who they are all the same; use method 'predictive-padded', or remove it"
            )
        if self.keep_observed:
            raise ValueError(
                "padding.neutral: padding.keep_observed publishes what people really rated, which tells who they are "
                "all the same; keep one of them"
            )
