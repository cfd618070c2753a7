"""[source]: where the ratings come from."""

import math
from typing import Literal

from pydantic import Field, field_validator, model_validator

from tasks.config.base import Settings

FormatName = Literal[
    "synthetic",
    "movielens-100k",
    "movielens-1m",
    "movielens-csv",
    "netflix-prize",
    "jester",
    "csv",
    "parquet",
]

# What each public data set is rated on; csv and parquet must say it themselves.
SCALES: dict[str, tuple[float, float]] = {
    "synthetic": (1.0, 5.0),
    "movielens-100k": (1.0, 5.0),
    "movielens-1m": (1.0, 5.0),
    "movielens-csv": (0.5, 5.0),
    "netflix-prize": (1.0, 5.0),
    "jester": (-10.0, 10.0),
}


class Columns(Settings):
    """Which column of a csv or parquet file holds what."""

    user: str = "user"
    item: str = "item"
    rating: str = "rating"
    timestamp: str | None = "timestamp"


class Synthetic(Settings):
    """Size of the synthetic source (a table `[source.synthetic]`)."""

    users: int = Field(default=2000, ge=2)
    items: int = Field(default=500, ge=2)
    ratings_per_user: float = Field(default=40.0, gt=0)
    tastes: int = Field(default=8, ge=1, description="number of latent taste dimensions")
    half_stars: bool = False
    months: int = Field(default=24, ge=1, description="timestamps span this many months before the snapshot")
    churn: float = Field(
        default=0.03, ge=0, lt=1, description="share of users who leave each month, replaced by joiners"
    )
    seed: int = Field(default=0, ge=0)


class Source(Settings):
    """A rating source: format, place, and how to read it."""

    format: FormatName
    path: str | None = None
    columns: Columns = Columns()
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    encoding: str = "utf-8"
    scale: tuple[float, float]
    max_bad_rows: float = Field(default=0.001, ge=0, le=1)
    block_bytes: int = Field(default=8 * 2**20, ge=2**12, description="how much is read at once")
    synthetic: Synthetic = Synthetic()

    @model_validator(mode="before")
    @classmethod
    def _scale_of_known_formats(cls, data: object) -> object:
        if isinstance(data, dict) and "scale" not in data and data.get("format") in SCALES:
            return {**data, "scale": SCALES[data["format"]]}
        return data

    @field_validator("scale", mode="before")
    @classmethod
    def _scale_is_a_pair(cls, value: object) -> object:
        if (
            isinstance(value, list | tuple)
            and len(value) == 2
            and all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
        ):
            return (float(value[0]), float(value[1]))
        raise ValueError("give two numbers, lowest and highest rating, such as [1.0, 5.0]")

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        try:
            "".encode(value)
        except LookupError:
            raise ValueError("not an encoding Python knows; use for example 'utf-8' or 'latin-1'") from None
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "Source":
        low, high = self.scale
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"scale [{low}, {high}] is upside down or empty; put the lowest rating first")
        if self.path is None and self.format != "synthetic":
            raise ValueError(
                f"format '{self.format}' needs a path; add path = \"…\" ({{snapshot}} is filled in)"
            )
        return self
