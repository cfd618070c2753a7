"""[obfuscation]: made-up ratings that hide a user attribute ([RFPP]), as a method or before another one."""

from typing import Literal

from pydantic import Field, model_validator

from tasks.config.base import Settings


class Obfuscation(Settings):
    """Hold which attribute is hidden, by how many made-up ratings, and how they are chosen ([RFPP], section 5)."""

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
        description="which items are added to whom (tasks/obfuscators); an attacker who trains on the release "
        "undoes all but matched",
    )
    similarity: Literal["compound", "pearson", "cosine", "adjusted-cosine", "jaccard"] = Field(
        default="compound", description="rfpp: how alike two items are"
    )
    threshold: float = Field(
        default=0.95,
        ge=-1,
        le=1,
        description="rfpp: least similarity of an added item to an item the person rated (β)",
    )
    top: int = Field(
        default=1000, ge=1, description="items most typical of another class, of which some are added"
    )
    rating: Literal["opposite", "same", "all"] = Field(
        default="opposite",
        description="added items get the mean rating of the other classes, of the own class, or of all people",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Obfuscation":
        if self.attribute is None and self.model_fields_set - {"attribute"}:
            raise ValueError(
                f"{min(self.model_fields_set - {'attribute'})}: without an attribute to hide nothing is added; "
                'set attribute, such as "gender", or remove this key'
            )
        return self
