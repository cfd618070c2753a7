"""[perturbation]: every person's own ratings, disguised with noise ([Zhang2006], [Casino2015])."""

from typing import Literal

from pydantic import Field, model_validator

from tasks.config.base import Settings


class Perturbation(Settings):
    """Hold which values get which noise ([Zhang2006], section 3; [Casino2015], section 4: GNA)."""

    scheme: Literal["z-scores", "gna"] = Field(
        default="z-scores",
        description="z-scores: per user, published as such ([Zhang2006]); gna: per item over the filled matrix, "
        "published as ratings ([Casino2015])",
    )
    entries: Literal["rated", "all"] = Field(
        default="rated",
        description="z-scores: disguise what was rated, or every item (gna: always every item)",
    )
    noise: Literal["gaussian", "uniform"] = "gaussian"
    amount: float = Field(
        default=1.0,
        gt=0,
        le=1000,
        description="σ of gaussian noise, half the range α of uniform noise, in z-scores",
    )
    flexible: bool = Field(default=False, description="true: every user draws an own amount below this one")
    clip: bool = Field(
        default=True,
        description="gna: true: clipped to the scale and rounded to privacy.rating_step; false: as they are",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Perturbation":
        if self.scheme == "z-scores":
            if "clip" in self.model_fields_set:
                raise ValueError(
                    "clip: z-scores have no scale to be clipped to; remove it or use scheme 'gna'"
                )
            return self
        if self.noise != "gaussian":
            raise ValueError(
                "noise: scheme 'gna' is Gaussian noise; use noise 'gaussian' or scheme 'z-scores'"
            )
        if self.flexible:
            raise ValueError(
                "flexible: scheme 'gna' has one amount for all; use scheme 'z-scores' or remove it"
            )
        if "entries" in self.model_fields_set and self.entries != "all":
            raise ValueError(
                "entries: scheme 'gna' disguises every item; use entries 'all' or scheme 'z-scores'"
            )
        return self

    @property
    def every_item(self) -> bool:
        """Return whether every record holds every item, rated or not."""
        return self.scheme == "gna" or self.entries == "all"

    @property
    def rounded(self) -> bool:
        """Return whether ratings are published in steps of the scale instead of as unrounded numbers."""
        return self.scheme == "gna" and self.clip
