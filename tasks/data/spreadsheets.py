"""Mark ids as text in CSV files, so that no spreadsheet program evaluates them as formulas.

Ids are the source's and may say anything (OWASP, "CSV Injection").
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

# A cell that begins with one of these is evaluated, quoted or not; the last four are their full-width forms.
FORMULA_MARKS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
TEXT_MARK = "'"  # a cell that begins with it is text
_FIRST = f"[{re.escape(FORMULA_MARKS)}{TEXT_MARK}]"


def needs_mark(text: str) -> bool:
    """Return whether an id must be marked: it begins as a formula, or with the mark itself."""
    return text.startswith((*FORMULA_MARKS, TEXT_MARK))


def marked(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return ids with the mark before those that need it: without its first mark every marked id is exact."""
    return pc.if_else(
        pc.match_substring_regex(texts, f"^{_FIRST}"),
        pc.binary_join_element_wise(TEXT_MARK, texts, ""),
        texts,
    )


def unmarked(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return ids without the mark that `marked` set."""
    return pc.replace_substring_regex(texts, f"^{TEXT_MARK}({_FIRST})", r"\1")
