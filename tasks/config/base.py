"""Hold the base class of all settings: frozen, strict, no unknown keys."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Represent a table of the release file. Frozen: a setting never changes while a release is made."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True, allow_inf_nan=False
    )
