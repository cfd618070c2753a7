"""Write the counts of raters of a release as plain rows (group, size, item, raters), for programs that rank by them.

EASE needs nothing else: a group is a row with `raters / size` as the share of its people who rated an item, and counts
`size` times (tasks/recommenders/_support.py does this, and says what to do about cells that are not published).
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tasks.data import support
from tasks.data.expand import FORMULA_MARKS, TEXT_MARK, arriving, require_absent, verified
from tasks.errors import UsageError


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
    counts = pq.read_table(published / support.FILE)
    heads = pq.read_table(published / "groups.parquet", columns=["group", "size"])
    items = pq.read_table(published / "items.parquet").column("item").combine_chunks()
    marked = pc.match_substring_regex(items, f"^[{FORMULA_MARKS}{TEXT_MARK}]".replace("-", r"\-"))
    items = pc.if_else(marked, pc.binary_join_element_wise(TEXT_MARK, items, ""), items)
    group = counts.column("group").combine_chunks()
    size = heads.column("size").take(pc.index_in(group, value_set=heads.column("group").combine_chunks()))
    columns = {
        "group": group,
        "size": size,
        "item": items.take(counts.column("item").combine_chunks()),
        "raters": counts.column("raters"),
    }
    with arriving(out) as place:
        pyarrow.csv.write_csv(pa.table(columns), place)
        length = place.stat().st_size
    return {
        "status": "written",
        "format": "support",
        "out": str(out),
        "file": str(out),
        "unit": "raters",
        "refined": False,
        "counts": {
            "users": manifest["counts"]["users"],
            "items": len(items),
            "rows": len(counts),
            "bytes": length,
        },
    }
