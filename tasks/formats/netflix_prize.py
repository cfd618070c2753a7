"""Read the Netflix Prize data: `movie:` lines, each followed by its user,rating,date lines.

Both editions are supported: one file per movie (training_set/mv_0000001.txt …) and combined ones (combined_data_1.txt
…).
"""

import re
from collections.abc import Iterator
from datetime import date
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from tasks.config import Source
from tasks.config.formats import Format
from tasks.errors import UsageError
from tasks.formats._blocks import Piece, RatingBlock, screen
from tasks.formats._files import cut, find, open_files, readable_errors
from tasks.formats._text import Layout, line_start, read_records, wrong_width_row

FORMAT = Format(scale=(1.0, 5.0))
LAYOUT = Layout(columns=3)
MOVIE = re.compile(r"(\d+):\s*")
_LOOK_BACK_BYTES = 2**20
_HEADING_BYTES = 2**8
MOST_LOOK_BACK = 2**28  # bytes of one movie's ratings; the longest section has a quarter of a million ratings


def pieces(source: Source, snapshot: date) -> list[Piece]:
    """Cut combined files by byte range, or gather the files per movie into pieces of block size."""
    found = find(source, snapshot, ["mv_*.txt", "combined_data_*.txt"], several=True)
    if len({"combined" in f.rsplit("/", 1)[-1] for f in found.files}) > 1:
        raise UsageError(
            "the directory holds both the files per movie and the combined files, which have the same ratings",
            where=source.path or "",
            remedy="set source.path to a directory with only one of the two",
        )
    return cut(found, source.block_bytes)


def read(piece: Piece, source: Source, snapshot: date) -> Iterator[RatingBlock]:
    """Yield the ratings of a piece; each belongs to the last `movie:` line before it."""
    for file, stream in open_files(piece):
        movie = ""
        if piece.start:
            with readable_errors(file):
                movie = _movie_before(stream, piece.start, file)
        for block in read_records(stream, piece, file, LAYOUT, source.block_bytes):
            headings = [(m.line, found[1]) for m in block.misshapen if (found := MOVIE.fullmatch(m.text))]
            heading_lines = {line for line, _ in headings}
            names = pa.array([movie, *(name for _, name in headings)], pa.string())
            heading = np.searchsorted([line for line, _ in headings], block.line_of_row)
            movie = names[-1].as_py()
            users, ratings, dates = block.columns
            yield screen(
                users,
                names.take(pa.array(heading)),
                ratings,
                dates,
                line_of_row=block.line_of_row,
                source=source,
                file=file,
                lines=block.lines,
                misshapen=[
                    wrong_width_row(m, LAYOUT, file) for m in block.misshapen if m.line not in heading_lines
                ],
            )


def _movie_before(stream: BinaryIO, position: int, file: str) -> str:
    """Return the movie whose section the first line at or after a position belongs to."""
    end = line_start(stream, position)
    stop = end
    while stop > max(0, end - MOST_LOOK_BACK):
        begin = max(0, stop - _LOOK_BACK_BYTES)
        stream.seek(begin)
        # A heading may lie across the cut: each window is read with the beginning of the one behind it.
        text = stream.read(min(stop + _HEADING_BYTES, end) - begin)
        found = re.findall(rb"\n(\d{1,50}):[^\S\n]*(?=\n)", (b"\n" if begin == 0 else b"") + text)
        if found:
            return found[-1].decode()
        stop = begin
    if stop > 0:
        raise UsageError(
            f"there is no line like `1:` that names the movie in {MOST_LOOK_BACK // 2**20} MiB of ratings",
            where=file,
            remedy="check source.format; a section of the Netflix Prize has a few megabytes",
        )
    return ""
