"""Define the tables of a ledger. One database (or one schema of PostgreSQL) holds one population.

`entries` is the append-only chain: its bodies hold digests and public facts, never a person's data. Everything about
people lies in `persons`, `versions` and `blocked`, each row under a random salt of its own, so that erasing the row
leaves the chain verifiable and the person unlinkable, and in `refused_people`, which the chain does not cover. All ids
are given by the ledger, never by the database.
"""

import sqlalchemy as sa

SCHEMA_VERSION = "1"
metadata = sa.MetaData()


def _id(name: str = "id") -> sa.Column[int]:
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)


meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("value", sa.String, nullable=False),
)

entries = sa.Table(
    "entries",
    metadata,
    _id("seq"),
    sa.Column("kind", sa.String, nullable=False),  # release | withdrawal | erasure
    sa.Column("body", sa.Text, nullable=False),  # canonical JSON
    sa.Column("previous", sa.String, nullable=False),
    sa.Column("digest", sa.String, nullable=False),
)

releases = sa.Table(
    "releases",
    metadata,
    _id(),  # in the order of publication
    sa.Column("name", sa.String, nullable=False),
    sa.Column("snapshot", sa.String, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("state", sa.String, nullable=False),  # prepared | published | withdrawn
    sa.Column("head_before", sa.String, nullable=False),
    sa.Column("manifest", sa.String, nullable=False),  # digest without created_at and code_version
    sa.Column("source", sa.Text, nullable=False),  # state of the source's files
    sa.Column("mode", sa.String, nullable=False),  # sticky | independent | synthetic
    sa.Column("k", sa.Integer, nullable=False),
    sa.Column("code", sa.String, nullable=False),
    sa.UniqueConstraint("name", "snapshot", "revision"),
)

groups = sa.Table(
    "groups",
    metadata,
    _id(),
    sa.Column("release_id", sa.Integer, nullable=False),  # in which it was first published
    sa.Column("place", sa.Integer, nullable=False),  # its row in the groups.parquet of that release
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("profile", sa.String, nullable=False),  # digest of size, item ids and ratings
    sa.Column("state", sa.String, nullable=False),  # live | withdrawn
    sa.Column("stratum", sa.String),  # earliest due snapshot at which its members were eligible
    sa.Column(
        "pool", sa.Integer
    ),  # of a withdrawn group: where its survivors went; else: where its members are from
    sa.UniqueConstraint("release_id", "place"),
)

release_groups = sa.Table(
    "release_groups",
    metadata,
    _id("release_id"),
    _id("group_id"),
    sa.Column("number", sa.Integer, nullable=False),  # the group's number in this release
    sqlite_with_rowid=False,
)

# A row for each group a person was published in: a survivor of a withdrawn group who is pooled has two.
persons = sa.Table(
    "persons",
    metadata,
    _id(),
    sa.Column("token", sa.LargeBinary, index=True),  # keyed digest of the source id; null once erased
    sa.Column("salt", sa.LargeBinary),  # null once erased
    sa.Column("group_id", sa.Integer, nullable=False, index=True),
    sa.Column("state", sa.String, nullable=False),  # released | survivor | pooled | erased
    sa.Column("commitment", sa.LargeBinary, nullable=False),
)

versions = sa.Table(
    "versions",
    metadata,
    _id("person_id"),
    sa.Column("ratings", sa.LargeBinary, nullable=False),  # tasks/series/versions.py
)

items = sa.Table(
    "items",
    metadata,
    _id(),  # the item's number in versions
    sa.Column("item", sa.String, nullable=False, unique=True),
    sa.Column("seen_release_id", sa.Integer, nullable=False),  # of the first released person who rated it
    sa.Column("position", sa.Integer),  # in the catalogue; null: not published
    sa.Column("release_id", sa.Integer),  # in which it entered the catalogue
)

withdrawals = sa.Table(
    "withdrawals",
    metadata,
    _id("release_id"),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at", sa.String, nullable=False),
)

erasures = sa.Table(
    "erasures",
    metadata,
    _id(),
    sa.Column("person_id", sa.Integer),  # null: the person had never been released
    sa.Column("group_id", sa.Integer),
    sa.Column("at", sa.String, nullable=False),
)

blocked = sa.Table(
    "blocked",
    metadata,
    sa.Column("token", sa.LargeBinary, primary_key=True),
    sa.Column("salt", sa.LargeBinary, nullable=False),
)

# Cohorts that the gate refused: whoever is tried again counts as tried before (tasks/series/refused_cohorts.py).
refused_cohorts = sa.Table(
    "refused_cohorts",
    metadata,
    _id(),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("snapshot", sa.String, nullable=False),
    sa.Column("attempt", sa.String, nullable=False),  # what was judged, by what thresholds
    sa.UniqueConstraint("name", "snapshot", "attempt"),
)

refused_people = sa.Table(
    "refused_people",
    metadata,
    _id("cohort_id"),
    sa.Column("token", sa.LargeBinary, primary_key=True),  # gone once the person is released or erased
)

# What each release with a privacy budget spent, and the limit it was published under (tasks/series/budget.py).
budget = sa.Table(
    "budget",
    metadata,
    _id("release_id"),
    sa.Column("rho", sa.Float, nullable=False),  # of zero-concentrated differential privacy
    sa.Column("failure", sa.Float, nullable=False),  # probability without the bound by rho; part of delta
    sa.Column("epsilon", sa.Float, nullable=False),  # of this release by itself, at `delta`
    sa.Column("delta", sa.Float, nullable=False),
    sa.Column("per", sa.String, nullable=False),  # release | year | population
    sa.Column("limit_epsilon", sa.Float, nullable=False),  # for all releases of the period together
    sa.Column("limit_delta", sa.Float, nullable=False),
)
