"""Write the counts of raters of a release as plain rows (group, size, item, raters), for programs that rank by them.

EASE needs nothing else: a group is a row with `raters / size` as the share of its people who rated an item, and counts
`size` times (tasks/recommenders/_support.py does this, and says what to do about cells that are not published).
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tasks.data import support
from tasks.data.expand import arriving, require_absent, verified
from tasks.data.spreadsheets import marked
from tasks.errors import UsageError
from tasks.formats import damaged, read_published


def expand_support(published: Path, out: Path) -> dict[str, Any]:
    """Write a csv file of the published counts; `out` appears whole or not at all. Return what was written."""
    out = out.absolute()
    require_absent(out)
    manifest = verified(published)
    if support.FILE not in manifest["files"]:
        raise UsageError(
            "this release has no counts of raters",
            where=str(published),
            remedy="use --to csv, movielens or recbole; counts are published with privacy.support = true",
        )
    counts = read_published(published / support.FILE, ["group", "item", "raters"])
    heads = read_published(published / "groups.parquet", ["group", "size"])
    items = read_published(published / "items.parquet", ["item"]).column("item").combine_chunks()
    with damaged(published / support.FILE):
        table = _rows(counts, heads, items)
    with arriving(out) as place:
        pyarrow.csv.write_csv(table, place)
        length = place.stat().st_size
    return {
        "status": "written",
        "format": "support",
        "out": str(out),
        "file": str(out),
        "unit": "raters",
        "refined": False,
        "counts": {
            "users": len(read_published(published / "members.parquet", ["user"])),
            "items": len(items),
            "rows": len(counts),
            "bytes": length,
        },
    }


def _rows(counts: pa.Table, heads: pa.Table, items: pa.StringArray) -> pa.Table:
    """Return the rows, with every id that a spreadsheet program would evaluate marked as text."""
    items = marked(items)
    group = counts.column("group").combine_chunks()
    size = heads.column("size").take(pc.index_in(group, value_set=heads.column("group").combine_chunks()))
    columns = {
        "group": group,
        "size": size,
        "item": items.take(counts.column("item").combine_chunks()),
        "raters": counts.column("raters"),
    }
    return pa.table(columns)
