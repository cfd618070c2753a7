"""[suppression]: items that few people rated are left out (paper 002, section 5)."""

from pydantic import Field

from tasks.config.base import Settings


class Suppression(Settings):
    """How much is left out."""

    share: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="of the items, those with the fewest ratings; absent: the smallest share that passes, by search",
    )
