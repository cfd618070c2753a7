"""[obfuscation]: made-up ratings that hide who people are (paper 004). By itself a method, or before any other."""

from typing import Literal

from pydantic import Field, model_validator

from tasks.config.base import Settings


class Obfuscation(Settings):
    """What is hidden, by how many made-up ratings, chosen how (paper 004, section 5)."""

    attribute: str | None = Field(
        default=None,
        min_length=1,
        description="the user attribute that is hidden; absent: none, nothing is added",
    )
    share: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="made-up ratings for each real one (p₀); absent: as many as matching needs, else 0.0389",
    )
    strategy: Literal["matched", "rfpp", "random", "greedy", "weinsberg"] = Field(
        default="matched",
        description="which items are added to whom (tasks/obfuscators); all but matched are undone by an inferrer that "
        "is trained anew",
    )
    similarity: Literal["compound", "pearson", "cosine", "adjusted-cosine", "jaccard"] = Field(
        default="compound", description="rfpp: how alike two items are"
    )
    threshold: float = Field(
        default=0.95,
        ge=-1,
        le=1,
        description="rfpp: added items are at least so similar to one the person rated (β)",
    )
    top: int = Field(
        default=1000, ge=1, description="items that speak most for another group, of which some are added"
    )
    rating: Literal["opposite", "same", "all"] = Field(
        default="opposite",
        description="added items get the mean rating of the other groups, of the own, or of everybody",
    )

    @model_validator(mode="after")
    def _possible(self) -> "Obfuscation":
        if self.attribute is None and self.model_fields_set - {"attribute"}:
            raise ValueError(
                f"{min(self.model_fields_set - {'attribute'})}: without an attribute to hide nothing is added; "
                'set attribute, such as "gender", or remove this key'
            )
        return self
