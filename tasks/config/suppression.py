"""[suppression]: items that few people rated are left out ([Frankowski2006], section 5)."""

from pydantic import Field

from tasks.config.base import Settings


class Suppression(Settings):
    """Hold how many items are left out."""

    share: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="of the items, those with the fewest ratings; absent: the smallest share that passes, by search",
    )
