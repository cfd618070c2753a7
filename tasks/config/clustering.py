"""[clustering]: how similar users are found and grouped."""

from typing import Literal

from pydantic import Field

from tasks.config.base import Settings

MetricName = Literal["weighted-squared", "weighted", "closeness-0.5", "closeness-1.0", "euclidean"]


class Clustering(Settings):
    """Hold the settings of sampling, centres, binning and bounded t-means ([Chang2009], section 4.2)."""

    metric: MetricName = "weighted-squared"
    sample: int | None = Field(
        default=None,
        ge=1,
        description="users drawn to find the centres; absent: 16 per centre, at least 2,000",
    )
    iterations: int = Field(default=10, ge=1, le=1000)
    seed: int = Field(default=0, ge=0)
