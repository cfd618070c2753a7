"""[perturbation]: every person's own ratings, disguised with noise (papers 001 and 003)."""

from typing import Literal

from pydantic import Field

from tasks.config.base import Settings


class Perturbation(Settings):
    """Which values get which noise (paper 001, section 2; paper 003, section 4: GNA)."""

    scheme: Literal["z-scores", "gna"] = Field(
        default="z-scores",
        description="z-scores: per user, published as such (paper 001); gna: per item over the filled matrix, "
        "published as ratings (paper 003)",
    )
    entries: Literal["rated", "all"] = Field(
        default="rated",
        description="z-scores: disguise what was rated, or every item (gna: always every item)",
    )
    noise: Literal["gaussian", "uniform"] = "gaussian"
    amount: float = Field(
        default=1.0, gt=0, description="σ of gaussian noise, half the range α of uniform noise, in z-scores"
    )
    flexible: bool = Field(default=False, description="true: every user draws an own amount below this one")
    clip: bool = Field(default=True, description="gna: ratings off the scale are moved to its ends")
