"""Match the attributes of a user table with the users who have ratings. Secret, except for the counts."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks.data.ratings import Ratings, write_attributes
from tasks.errors import UsageError


def write_known(directory: Path, table: pa.Table | None, needed: Sequence[str]) -> dict[str, dict[str, int]]:
    """Write the attributes in a table of `formats.attributes` beside the ratings in a directory; return the counts."""
    known = known_of(Ratings(directory).user_ids(), table)
    refuse_unknown(known, needed)
    if known:
        write_attributes(directory, known)
    return {name: figures(values) for name, values in known.items()}


def known_of(users: pa.Array, table: pa.Table | None) -> dict[str, pa.Array]:
    """Return the class of each user (null: not known), by attribute, from a table of `formats.attributes`."""
    if table is None:
        return {}
    row = pc.index_in(users, value_set=table.column("user").combine_chunks())
    return {name: table.column(name).combine_chunks().take(row) for name in table.column_names[1:]}


def figures(values: pa.Array) -> dict[str, int]:
    """Return for how many users an attribute is known and the number of its classes among them, but no value."""
    return {"known": len(values) - values.null_count, "classes": pc.count_distinct(values).as_py()}


def refuse_unknown(known: dict[str, pa.Array], needed: Sequence[str]) -> None:
    """Refuse a table about other users, and `needed` attributes in which the users do not differ."""
    if known and not any(figures(values)["known"] for values in known.values()):
        raise UsageError(
            "the user table has no user who has ratings",
            where="source.attributes",
            remedy="use the same user ids in both, or remove the table",
        )
    for name in needed:
        if name not in known:
            why = "there is no user table"
        elif figures(known[name])["classes"] < 2:
            why = "the users with ratings do not differ in it"
        else:
            continue
        raise UsageError(
            f"the attribute '{name}' is to be hidden or protected, but {why}",
            where="source.attributes",
            remedy="name a table with the same user ids as the ratings, or leave the attribute out of privacy.protect, "
            "padding.neutral and obfuscation.attribute",
        )
