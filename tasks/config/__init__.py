"""Read the TOML file that describes a release, and refuse what cannot work.

One file per table. Light on purpose: the DAG file imports it, so nothing here may load numpy, dask or numba. What only
one method or one format refuses is declared in its own file (tasks/methods, tasks/formats); both are found by name, so
this package imports neither.
"""

import datetime
import tomllib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError, model_validator

from tasks.config.alerts import Alerts
from tasks.config.base import Settings
from tasks.config.budget import Budget
from tasks.config.clustering import Clustering
from tasks.config.gate import validate_thresholds
from tasks.config.microaggregation import Microaggregation
from tasks.config.obfuscation import Obfuscation
from tasks.config.padding import Padding
from tasks.config.perturbation import Perturbation
from tasks.config.privacy import METHODS_PACKAGE, Privacy
from tasks.config.release import Release
from tasks.config.series import Mode, Series
from tasks.config.source import Source
from tasks.config.suppression import Suppression
from tasks.config.synthesis import Synthesis
from tasks.errors import UsageError, printable

__all__ = [
    "Alerts",
    "Budget",
    "Clustering",
    "Microaggregation",
    "Obfuscation",
    "Padding",
    "Perturbation",
    "Privacy",
    "Release",
    "ReleaseConfig",
    "Series",
    "Source",
    "Suppression",
    "Synthesis",
    "load",
    "parse",
    "snapshot_date",
]

LARGEST_FILE = 2**20  # bytes of a release file
MOST_PROBLEMS, LONGEST_SHOWN = 20, 200  # in a message


class ReleaseConfig(Settings):
    """Hold everything a release depends on, apart from its input, the secret and the snapshot."""

    release: Release
    source: Source
    privacy: Privacy = Privacy()
    padding: Padding = Padding()
    clustering: Clustering = Clustering()
    microaggregation: Microaggregation = Microaggregation()
    perturbation: Perturbation = Perturbation()
    obfuscation: Obfuscation = Obfuscation()
    suppression: Suppression = Suppression()
    synthesis: Synthesis = Synthesis()
    gate: Annotated[dict[str, float], AfterValidator(validate_thresholds)] = {}
    series: Series = Series()
    alerts: Alerts = Alerts()

    @model_validator(mode="after")
    def _possible(self) -> "ReleaseConfig":
        low, high = self.source.scale
        self._attributes_are_known()
        if self.series.min_cohort is not None and self.series.min_cohort < 2 * self.privacy.k:
            raise ValueError(
                f"series.min_cohort {self.series.min_cohort} is less than two groups of privacy.k = {self.privacy.k}; "
                "raise it, or remove it for the default"
            )
        if self.privacy.rating_step > high - low:
            raise ValueError(
                f"privacy.rating_step {self.privacy.rating_step} is wider than the scale [{low}, {high}]; "
                "choose a smaller step"
            )
        if (high - low) / self.privacy.rating_step > 65535:
            raise ValueError("privacy.rating_step is too fine: more than 65,536 levels; choose a larger step")
        # By name and not before it is needed: tasks.methods imports this package.
        import_module(METHODS_PACKAGE).refuse_impossible(self)
        if own_settings := self.source.format_settings:
            own_settings.check(self.privacy)
        return self

    def _attributes_are_known(self) -> None:
        """Refuse attributes that are to be protected or hidden and that the source does not have."""
        named_by_key: dict[str, Sequence[str | None]] = {
            "privacy.protect": self.privacy.protect,
            "obfuscation.attribute": [self.obfuscation.attribute],
            "padding.neutral": self.padding.neutral,
        }
        for key, named in named_by_key.items():
            if unknown := sorted({name for name in named if name} - set(self.source.attribute_names)):
                raise ValueError(
                    f"{key}: the source has no user attribute {', '.join(unknown)}; name a user table in "
                    "source.attributes.path and the attribute in source.attributes.columns, or remove it"
                )

    @property
    def needed_attributes(self) -> tuple[str, ...]:
        """Return the attributes without which this release cannot be made or judged."""
        hidden = self.obfuscation.attribute
        hiding = [*self.padding.neutral, *([hidden] if hidden else [])]
        return tuple(dict.fromkeys([*self.protected_attributes, *hiding]))

    @property
    def protected_attributes(self) -> tuple[str, ...]:
        """Return the attributes whose inference is held to a threshold: those of privacy.protect. Hiding an attribute
        with [obfuscation] or padding.neutral does not promise that it is hidden."""
        return tuple(dict.fromkeys(self.privacy.protect))

    @property
    def series_mode(self) -> Mode:
        """Return how this release follows others about the same people; see tasks/config/series.py."""
        if self.series.mode is not None:
            return self.series.mode
        return "sticky" if import_module(METHODS_PACKAGE).method(self).publishes_groups else "independent"

    def alone(self) -> "ReleaseConfig":
        """Return the same release outside any series: for studies and trials, of which nothing is published."""
        return self.model_copy(update={"series": self.series.model_copy(update={"mode": "independent"})})

    @property
    def is_alerting(self) -> bool:
        """Return whether anybody is alerted: the release file has a table [alerts]."""
        return "alerts" in self.model_fields_set

    @property
    def every_item(self) -> bool:
        """Return whether each group of this release has a predicted value of every item of its cohort."""
        return import_module(METHODS_PACKAGE).method(self).every_item

    @property
    def population(self) -> str:
        """Return the name of the people this release is about; releases of the same people must share it."""
        return self.series.population or self.release.name


def parse(data: dict[str, Any], where: str = "configuration") -> ReleaseConfig:
    """Validate the tables of a release file; every refusal names the key and the remedy."""
    try:
        return ReleaseConfig.model_validate(data)
    except (OverflowError, RecursionError, UnicodeError):
        raise UsageError(
            "a number is out of range, or tables are nested too deeply",
            where=where,
            remedy="correct the file",
        ) from None
    except ValidationError as error:
        problems = [_explain(problem) for problem in error.errors()]
        if len(problems) > MOST_PROBLEMS:
            problems = [*problems[:MOST_PROBLEMS], f"and {len(problems) - MOST_PROBLEMS:,} more"]
        raise UsageError(
            "\n".join(problems),
            where=where,
            remedy="correct the keys named above; `murmur init NAME` writes a commented example",
        ) from None


def load(path: str | Path) -> ReleaseConfig:
    """Read and validate a release file."""
    path = Path(path)
    try:
        if path.exists() and (not path.is_file() or path.stat().st_size > LARGEST_FILE):
            raise UsageError(
                f"this is no file of at most {LARGEST_FILE:,} bytes",
                where=str(path),
                remedy="name a release file",
            )
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            "there is no such configuration file", where=str(path), remedy="check the path"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the configuration cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}",
            where=str(path),
            remedy="check the file",
        ) from None
    except (RecursionError, OverflowError):
        raise UsageError(
            "not valid TOML: tables are nested too deeply", where=str(path), remedy="correct the file"
        ) from None
    except ValueError as error:  # a whole number of thousands of digits is one, too
        raise UsageError(
            f"not valid TOML: {printable(str(error), 300)}",
            where=str(path),
            remedy="correct the line named above",
        ) from None
    return parse(data, str(path))


def snapshot_date(text: str) -> datetime.date:
    """Return the date of the snapshot a run is about, written as YYYY-MM-DD."""
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise UsageError(
            f"'{text}' is not a snapshot date", where="--snapshot", remedy="write it as YYYY-MM-DD"
        ) from None


_PHRASES = {
    "extra_forbidden": "unknown key; remove it or check its spelling",
    "missing": "is missing; add it",
}


def _explain(problem: Any) -> str:
    key = printable(".".join(str(part) for part in problem["loc"]), LONGEST_SHOWN) or "configuration"
    phrase = _PHRASES.get(problem["type"])
    if phrase is None:
        phrase = problem["msg"].removeprefix("Value error, ")
        if problem["type"] != "value_error":
            phrase += f" (found {printable(repr(problem['input']), LONGEST_SHOWN)})"
    return f"{key}: {printable(phrase, 600)}"
