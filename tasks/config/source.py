"""[source]: where the ratings come from."""

import math
import re
from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator, model_validator

from tasks.config import formats, plugins
from tasks.config.base import Settings
from tasks.config.formats import Format
from tasks.config.privacy import Privacy

# Of the attributes that a format has by itself, those that are read unless the release file says otherwise.
USUAL_ATTRIBUTES = ("gender", "age")


def _known_format(name: str) -> str:
    return plugins.known(formats.PACKAGE, name, "format")


def _known_encoding(value: str) -> str:
    try:
        "".encode(value)
    except LookupError:
        raise ValueError("not an encoding Python knows; use for example 'utf-8' or 'latin-1'") from None
    return value


class Columns(Settings):
    """Hold which column of a csv or parquet file contains what."""

    user: str = "user"
    item: str = "item"
    rating: str = "rating"
    timestamp: str | None = "timestamp"


def _as_in_tables(value: object) -> object:
    """Return a value of a group as the text that tables hold: 18, 18.0 and "18" are the same, true is "true"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() if isinstance(value, str | int | float) else value


def _texts(groups: dict) -> dict:
    """Return the values of groups as text, however they were written."""
    return {
        group: tuple(map(_as_in_tables, some)) if isinstance(some, list | tuple) else some
        for group, some in groups.items()
    }


class Attributes(Settings):
    """Hold where the owner's facts about people beside ratings are (`[source.attributes]`). Never published."""

    path: str | None = Field(
        default=None, description="a csv or parquet table with a row per user; {snapshot} is filled in"
    )
    user: str = Field(default="user", description="its column of user ids")
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    encoding: str = "utf-8"
    columns: tuple[str, ...] | None = Field(
        default=None, description="which attributes; absent: gender and age where the format has them"
    )
    groups: dict[str, dict[str, tuple[str, ...]]] = Field(
        default={}, description="values put together: age = { youth = [18, 25, 35] }; all others are 'other'"
    )
    edges: dict[str, tuple[float, ...]] = Field(
        default={}, description="numbers cut into ranges: age = [18, 36] is below 18, 18 to below 36, from 36"
    )

    _known_encoding = field_validator("encoding")(_known_encoding)

    @field_validator("columns", mode="before")
    @classmethod
    def _names_as_tuple(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("groups", mode="before")
    @classmethod
    def _values_as_text(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {name: _texts(of) if isinstance(of, dict) else of for name, of in value.items()}

    @field_validator("edges", mode="before")
    @classmethod
    def _edges_as_numbers(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {
            name: tuple(float(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in edges)
            if isinstance(edges, list | tuple)
            else edges
            for name, edges in value.items()
        }

    @model_validator(mode="after")
    def _consistent(self) -> "Attributes":
        if self.path is not None and not self.columns:
            raise ValueError('columns: name the columns of the table that are attributes, such as ["gender"]')
        if self.path is None and (alone := sorted({"user", "delimiter", "encoding"} & self.model_fields_set)):
            raise ValueError(f"{', '.join(alone)}: name the table they are about in path, or remove them")
        if self.columns is not None and len(set(self.columns)) != len(self.columns):
            raise ValueError("columns: an attribute is named twice")
        if {"user", self.user} & set(self.columns or ()):
            raise ValueError("columns: the users' ids are no attribute, and none can be called 'user'")
        for name, edges in self.edges.items():
            if not edges or any(a >= b for a, b in pairwise(edges)):
                raise ValueError(f"edges.{name}: give rising numbers, such as [18, 36]")
        for name, groups in self.groups.items():
            values = [value for some in groups.values() for value in some]
            each_has_some = values and all(values) and all(groups.values())
            if not each_has_some or len(set(values)) != len(values):
                raise ValueError(f"groups.{name}: give each group its values, and each value to one group")
            if name in self.edges:
                raise ValueError(f"{name} is set in both groups and edges; remove one")
        return self


class Catalogue(Settings):
    """Hold where titles and genres of items are (`[source.catalogue]`). They are published."""

    path: str | None = Field(
        default=None,
        description="a csv or parquet table with a row per item; {snapshot} is filled in; absent: the format's own",
    )
    item: str = Field(default="item", description="its column of item ids")
    title: str | None = Field(default=None, description="its column of titles")
    genres: str | None = Field(default=None, description="its column of genres; several are separated by |")
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    encoding: str = "utf-8"
    publish: bool = Field(default=True, description="false: titles and genres are not published")

    _known_encoding = field_validator("encoding")(_known_encoding)

    @model_validator(mode="after")
    def _consistent(self) -> "Catalogue":
        if self.path is not None and self.title is None and self.genres is None:
            raise ValueError("name the column of titles in title, that of genres in genres, or both")
        about_table = {"item", "title", "genres", "delimiter", "encoding"} & self.model_fields_set
        if self.path is None and about_table:
            raise ValueError(
                f"{', '.join(sorted(about_table))}: name the table they are about in path, or remove them"
            )
        return self


class Synthetic(Settings):
    """Hold the size of the synthetic source (`[source.synthetic]`)."""

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

    def check(self, privacy: Privacy) -> None:
        """Refuse fewer people than the promised groups need."""
        if self.users < privacy.k:
            raise ValueError(
                f"source.synthetic.users {self.users} is below privacy.k {privacy.k}: not one group can be formed; "
                "raise users or lower k"
            )
        groups = self.users // privacy.k
        if groups < privacy.l:
            raise ValueError(
                f"privacy.l {privacy.l} exceeds the {groups} groups that {self.users} users can form at "
                f"k={privacy.k}; lower l or k"
            )


class Sql(Settings):
    """Hold a database and the query that gives the ratings (`[source.sql]`)."""

    url: str = Field(
        description="as SQLAlchemy has it, without a password: postgresql://reader@host/database"
    )
    query: str = Field(
        min_length=1, description="its result has the columns of source.columns; :snapshot is the run's date"
    )
    password_file: str | None = Field(default=None, description="file that holds the password")
    version: str | None = Field(
        default=None,
        description="a query with one row that changes whenever the ratings do, such as SELECT max(changed_at) …; "
        "absent: all rows are read to see whether they changed",
    )

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        address = re.match(r"[a-z][a-z0-9_+]*://(?P<account>[^/@]*@)?", value)
        if address is None:
            raise ValueError("this is no address of a database; give postgresql://reader@host/database")
        if ":" in (address["account"] or ""):
            raise ValueError(
                "a release file must not hold a password; name the file that does in source.sql.password_file"
            )
        return value

    def check(self, privacy: Privacy) -> None:
        """Refuse nothing: a database goes with every promise."""


class Source(Settings):
    """Hold a rating source: format, place, and how to read it."""

    format: Annotated[str, AfterValidator(_known_format)]
    path: str | None = None
    columns: Columns = Columns()
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    encoding: str = "utf-8"
    scale: tuple[float, float]
    max_bad_rows: float = Field(default=0.001, ge=0, le=1)
    block_bytes: int = Field(default=8 * 2**20, ge=2**12, description="how much is read at once")
    max_decompressed_bytes: int = Field(
        default=16 * 2**30,
        ge=1,
        description="what compressed files may expand to, all together: eight times the Netflix Prize",
    )
    max_compression_ratio: float = Field(
        default=100.0, gt=1, description="and each of them, beyond 64 MiB: rating files reach 3 to 10"
    )
    synthetic: Synthetic = Synthetic()
    sql: Sql | None = None
    attributes: Attributes = Attributes()
    catalogue: Catalogue = Catalogue()

    @model_validator(mode="before")
    @classmethod
    def _scale_of_format(cls, data: object) -> object:
        if isinstance(data, dict) and "scale" not in data and data.get("format") in formats.names():
            scale = formats.declared(data["format"]).scale
            return {**data, "scale": scale} if scale else data
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

    _known_encoding = field_validator("encoding")(_known_encoding)

    @model_validator(mode="after")
    def _consistent(self) -> "Source":
        low, high = self.scale
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"scale [{low}, {high}]: the lowest rating must be below the highest")
        if self.path is None and self.declared.needs_path:
            raise ValueError(
                f"format '{self.format}' needs a path; add path = \"…\" ({{snapshot}} is filled in)"
            )
        if (table := self.declared.table) is not None and self.format_settings is None:
            raise ValueError(f"format '{self.format}' needs the table [source.{table}]")
        self._attributes_exist()
        return self

    def _attributes_exist(self) -> None:
        given = self.attributes
        own = self.declared.attributes
        if given.path is None and (unknown := sorted(set(given.columns or ()) - set(own))):
            has = f"has {', '.join(own)}" if own else "has no user table of its own"
            raise ValueError(
                f"attributes.columns: format '{self.format}' {has}, not {', '.join(unknown)}; "
                "name a table in attributes.path"
            )
        known = self.attribute_names
        for key, named in (("groups", given.groups), ("edges", given.edges)):
            if unknown := sorted(set(named) - set(known)):
                raise ValueError(f"attributes.{key}: {', '.join(unknown)} is none of attributes.columns")

    @property
    def declared(self) -> Format:
        """Return what the format declares about itself."""
        return formats.declared(self.format)

    @property
    def format_settings(self) -> Any:
        """Return the table of settings that belongs to this format alone; None: it has no such table."""
        return getattr(self, self.declared.table) if self.declared.table else None

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """Return the user attributes that are read from this source."""
        if self.attributes.columns is not None:
            return self.attributes.columns
        return tuple(name for name in self.declared.attributes if name in USUAL_ATTRIBUTES)

    @property
    def attribute_edges(self) -> dict[str, tuple[float, ...]]:
        """Return where numbers are cut into ranges: as the release file says, else as the format declares."""
        own = self.declared.attribute_edges if self.attributes.path is None else {}
        return {
            name: e for name, e in own.items() if name not in self.attributes.groups
        } | self.attributes.edges
