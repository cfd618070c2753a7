"""[series]: how this release relates to other releases about the same people."""

from typing import Literal

from tasks.config.base import Settings


class Series(Settings):
    """Hold the mode of a series of releases and the population it is about."""

    mode: Literal["sticky", "independent"] = "independent"
    population: str | None = None
