"""[padding]: the model that predicts what people did not rate."""

from typing import Literal

from pydantic import Field

from tasks.config.base import Settings


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
