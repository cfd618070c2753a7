"""Read what the files of a release say beside their columns: Parquet footers, and when the files were written."""

import datetime
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checks.evidence.release import DETAILS, SUPPORT, data_files
from checks.evidence.release_view import ReleaseView

WRITER = re.compile(r"parquet-cpp-arrow version \d+(\.\d+){0,3}(-SNAPSHOT)?")
ARROW_SCHEMA = b"ARROW:schema"  # the columns' types once more, which pyarrow adds to every file
SUMMARIZED = {
    "groups.parquet": ("group", "size"),
    "members.parquet": ("user", "group"),
    "items.parquet": ("item", *DETAILS),
    SUPPORT: ("group", "item", "raters"),
}
DAY_SECONDS = 86_400


def foreign_metadata(release: ReleaseView) -> list[str]:
    """Return which files have a footer that says more than their columns do, in words that quote nothing."""
    found = []
    for name, path in _files(release).items():
        with pq.ParquetFile(path, pre_buffer=False) as file:
            if problem := _footer_problem(file, SUMMARIZED[name]):
                found.append(f"{name}: {problem}")
    return found


def row_group_sizes(release: ReleaseView) -> list[int]:
    """Return the number of groups in each row group of groups.parquet."""
    files = _files(release)
    if not files:
        return []
    footer = pq.read_metadata(files["groups.parquet"])
    return [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]


def dated_before_their_data(release: ReleaseView, days: np.ndarray | None) -> list[str]:
    """Return which files claim to be older than the last rating they were made from: such a time is somebody's.

    Copies may carry any one time. Only where times differ by more than a day can one of them be chosen for what it
    says. Ratings of the future count as wrong clocks.
    """
    files = _files(release)
    times = {name: path.stat().st_mtime / DAY_SECONDS for name, path in files.items()}
    created = _created(release)
    if created is not None:
        times["created_at"] = created.timestamp() / DAY_SECONDS
    if days is None or not len(days) or not times or max(times.values()) - min(times.values()) <= 1:
        return []
    last, newest = float(days.max()), max(times.values())
    if last > newest:
        last = float(days[days <= newest].max(initial=0))
    return [f"{name} is dated before the last rating" for name, time in times.items() if time < last - 1]


def _files(release: ReleaseView) -> dict[str, Path]:
    directory = getattr(release, "directory", None)  # views that are not files have none
    return {} if directory is None else {name: directory / name for name in data_files(directory)}


def _created(release: ReleaseView) -> datetime.datetime | None:
    try:
        moment = datetime.datetime.fromisoformat(release.manifest["created_at"])
    except (KeyError, TypeError, ValueError):  # not published yet, or what `integrity` reports
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _footer_problem(file: pq.ParquetFile, summarized: tuple[str, ...]) -> str:
    """Return what in a footer does not follow from the columns; an empty text where everything does."""
    footer, entries = file.metadata, file.metadata.metadata or {}
    if set(entries) - {ARROW_SCHEMA}:
        return "key-value metadata"
    if file.schema_arrow.metadata or any(_texts(field) for field in file.schema_arrow):
        return "metadata of columns"
    if WRITER.fullmatch(footer.created_by or "") is None:
        return "an unknown writer"
    return "statistics that are not the columns'" if _false_statistics(file, summarized) else ""


def _texts(field: pa.Field) -> bool:
    """Return whether a column has metadata beside the number that Parquet gives it."""
    nested = [field.type.value_field] if pa.types.is_list(field.type) else []
    own = set(field.metadata or {}) - {b"PARQUET:field_id"}
    return bool(own) or any(_texts(one) for one in nested)


def _false_statistics(file: pq.ParquetFile, summarized: tuple[str, ...]) -> bool:
    """Return whether a row group names another lowest or highest value than its column has."""
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        stated = {
            group.column(c).path_in_schema: group.column(c).statistics for c in range(group.num_columns)
        }
        named = [name for name in summarized if (about := stated.get(name)) is not None and about.has_min_max]
        if not named:
            continue
        columns = file.read_row_group(number, columns=named)
        for name in named:
            values = columns.column(name).drop_null().to_numpy(zero_copy_only=False)
            if not len(values):
                return True
            # A long text may be cut in statistics: then its beginning is named.
            if not _agrees(stated[name].min, values.min()) or not _agrees(stated[name].max, values.max()):
                return True
    return False


def _agrees(stated: object, real: object) -> bool:
    return stated == real or (isinstance(stated, str) and isinstance(real, str) and real.startswith(stated))
