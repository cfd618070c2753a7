"""Run the method on data with sybils: accounts that an attacker has made up to learn about others.

    opinions/, opinions-2/, …  one-rater items get the further accounts with which they enter the model
        (planted_opinions.py)
        the release, and targets.parquet: item (column), rating, usual (mean of the rater's other ratings), pseudonym,
        rater (a number, the same in all draws)
    copies/    people are surrounded by copies of what is known of them (planted_copies.py)
        the release, accounts.parquet: pseudonym, target, copy, third, known; unknown.parquet: target, item, rating

The gate measures what these releases reveal (checks/attacks/sybil.py). Nothing of them is published. Users and items
have numbers instead of ids here. Of a large source a sample of users is enough.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from tasks import methods
from tasks.config import ReleaseConfig
from tasks.config.base import Settings
from tasks.data.candidate import Candidate, Contents, Declaration, Membership, write_release
from tasks.data.public_prior import copy_prior
from tasks.data.ratings import Ratings, write_attributes, write_ids, write_matrix
from tasks.pipeline import Job, Plan, execute, plan
from tasks.shadow.planted_copies import choose_targets, plant_copies
from tasks.shadow.planted_opinions import (
    FEWEST_OPINIONS,
    FEWEST_RATINGS,
    Entries,
    choose_opinions,
    is_attackable,
    plant_accounts,
)
from tasks.shadow.split import MOST_USERS
from tasks.store import remove

# What a column reveals of its one rater does not depend on how many others there are, and among fewer people a person
# is alone with the copies rather than among more: so a part of the people is enough. All these runs together may take
# twice the CPU time of the release.
OPINIONS_SHARE = 0.5
COPIES_SHARE = 0.5
FEWEST_USERS = 400
MOST_DRAWS = 2
# With fewer opinions than this in one run there is a second one, so that the verdict does not hang on one draw.
ENOUGH_OPINIONS = 1_000


class SybilPlan(Settings):
    """Hold the steps of the runs with sybils: those of the release, with their parameters."""

    steps: Plan
    profiles_step: str

    @classmethod
    def of(cls, config: ReleaseConfig) -> "SybilPlan | None":
        """Return the plan for a release; None where records are single people's, which need no sybil to be read."""
        if not methods.method(config).publishes_groups:
            return None
        steps = methods.data_steps(config)
        names = tuple(name for name in steps if name != "ingest")
        return cls(steps=plan(config, names), profiles_step=next(reversed(steps)))


@dataclass(frozen=True)
class People:
    """Hold the ratings of the people among whom sybils are planted (rows of the ingested ratings)."""

    ingested: Ratings
    rows: np.ndarray
    ratings: sp.csr_array

    @classmethod
    def sample(cls, ingested: Ratings, most: int, draw: np.random.Generator) -> "People":
        """Take everybody, or a sample of the users."""
        users = ingested.n_users
        rows = np.arange(users) if users <= most else np.sort(draw.choice(users, most, replace=False))
        return cls(ingested, rows, ingested.by_user.take(rows))


def run_sybils(
    job: Job[Any, Any], chosen: SybilPlan, declared: Declaration, ingested: Ratings, out: Path
) -> None:
    """Run the method with either kind of sybils and keep both releases; nothing where the data are too small."""
    if not is_attackable(ingested.n_items, len(ingested.by_user.indices)):
        return
    out.mkdir()
    attacked, number = 0, 0
    while attacked < ENOUGH_OPINIONS and number < MOST_DRAWS:
        number += 1
        some = People.sample(ingested, _enough_people(ingested), job.rng("sybil users", number))
        name = "opinions" if number == 1 else f"opinions-{number}"
        attacked += _attack_opinions(job, chosen, declared, some, out / name)
    most = min(MOST_USERS, max(FEWEST_USERS, int(COPIES_SHARE * ingested.n_users)))
    crowd = People.sample(ingested, most, job.rng("sybil crowd"))
    _attack_groups(job, chosen, declared, crowd, out / "copies")


def _enough_people(ingested: Ratings) -> int:
    """Return among how many people opinions are attacked: with twice the ratings that are needed, and where few items
    need many further columns, with as many cells as the release has."""
    users, items = ingested.n_users, ingested.n_items
    fewer = OPINIONS_SHARE * users
    if items < FEWEST_OPINIONS:
        fewer = min(fewer, users * items / (items + FEWEST_OPINIONS))
    needed = 2 * FEWEST_RATINGS * users / len(ingested.by_user.indices)
    return min(MOST_USERS, max(FEWEST_USERS, int(fewer), int(needed) + 1))


def _attack_opinions(
    job: Job[Any, Any], chosen: SybilPlan, declared: Declaration, people: People, out: Path
) -> int:
    """Attack opinions among these people and keep the release; return how many opinions were attacked."""
    entries, draw = Entries.of(people.ratings), job.rng(f"sybil {out.name}")
    opinions = choose_opinions(entries, people.ratings.shape[1], draw)
    accounts, middle = declared.privacy["min_contributors"] - 1, sum(declared.scale) / 2
    planted = plant_accounts(entries, opinions, len(people.rows), accounts, middle, draw)
    pseudonyms = _release(job, chosen, declared, people, planted, out, unknown=opinions.column)
    rater = entries.user[opinions.place]
    number = job.rng("sybil raters").permutation(people.ingested.n_users)[people.rows[rater]]
    targets = {
        "item": pa.array(opinions.column, pa.int32()),
        "rating": pa.array(entries.rating[opinions.place], pa.float32()),
        "usual": pa.array(entries.usual[opinions.place], pa.float32()),
        "pseudonym": pseudonyms.take(pa.array(rater)),
        "rater": pa.array(number, pa.int32()),
    }
    _write_in_drawn_order(targets, out / "targets.parquet", draw)
    return len(rater)


def _attack_groups(
    job: Job[Any, Any], chosen: SybilPlan, declared: Declaration, people: People, out: Path
) -> None:
    k, draw = declared.privacy["k"], job.rng("sybil copies")
    targets = choose_targets(np.diff(people.ratings.indptr), k, draw)
    if not len(targets.user):
        return
    surrounded = plant_copies(people.ratings, targets, k, draw)
    pseudonyms = _release(job, chosen, declared, people, surrounded.ratings, out)
    row = np.concatenate([targets.user, len(people.rows) + np.arange(len(surrounded.copy_of))])
    target = np.concatenate([np.arange(len(targets.user)), surrounded.copy_of])
    accounts = {
        "pseudonym": pseudonyms.take(pa.array(row)),
        "target": pa.array(target, pa.int32()),
        "copy": pa.array(np.arange(len(row)) >= len(targets.user)),
        "third": pa.array(targets.third[target], pa.int32()),
        "known": pa.array(targets.known[target], pa.int32()),
    }
    _write_in_drawn_order(accounts, out / "accounts.parquet", draw)
    place, item, rating = surrounded.unknown
    unknown = {
        "target": pa.array(place, pa.int32()),
        "item": pa.array(item, pa.int32()),
        "rating": pa.array(rating, pa.float32()),
    }
    pq.write_table(pa.table(unknown), out / "unknown.parquet", compression="zstd")


def _write_in_drawn_order(columns: dict[str, pa.Array], path: Path, draw: np.random.Generator) -> None:
    """Write rows in an order that does not follow from the source's."""
    table = pa.table(columns)
    pq.write_table(table.take(pa.array(draw.permutation(len(table)))), path, compression="zstd")


def _release(
    job: Job[Any, Any],
    chosen: SybilPlan,
    declared: Declaration,
    people: People,
    ratings: sp.csr_array,
    out: Path,
    *,
    unknown: np.ndarray | None = None,
) -> pa.Array:
    """Run the method's steps on these ratings, of the people and of further accounts, and keep what it would publish;
    return the pseudonyms by row.

    Of the items `unknown` earlier releases say nothing: what is public of an item before predicts what its raters think
    by itself, and only what their own ratings add is to be measured. The purpose of the run names its steps' CPU time,
    so that it is counted apart from the release's.
    """
    work = job.out / "work" / out.name
    given = work / "ingest"
    _write_ratings(given, people, ratings, unknown)
    inner = job.inner_run(chosen.steps, {"ingest": given}, work, f"sybil {out.name}")
    made = {name: Path(execute(name, inner)["path"]) for name in chosen.steps.steps}
    planted = Ratings(given)
    ids, labels = planted.user_ids(), np.load(made["clustering"] / "labels.npy")
    names = inner.pseudonyms(ids)
    groups = made[chosen.profiles_step] / "groups.parquet"
    contents, members = Contents.of(planted, groups), Membership(ids, names, labels)
    write_release(Candidate(out, out), declared, job.snapshot, contents, members)
    remove(job.out / "work")
    return names


def _write_ratings(
    out: Path, people: People, ratings: sp.csr_array, without_prior: np.ndarray | None
) -> None:
    """Write a directory of ratings like ingest's; of made-up accounts no attribute is known."""
    out.mkdir(parents=True)
    users, items = ratings.shape
    write_ids(out, "user", [str(number) for number in range(users)])
    write_ids(out, "item", [str(number) for number in range(items)])
    known = people.ingested.attributes()
    if known:
        unknown = pa.nulls(users - len(people.rows), pa.string())
        own = {name: values.take(pa.array(people.rows)).cast(pa.string()) for name, values in known.items()}
        write_attributes(out, {name: pa.concat_arrays([values, unknown]) for name, values in own.items()})
    write_matrix(out, ratings)
    # Columns behind the ingested ones are planted.
    column = np.arange(items)
    column[column >= people.ingested.n_items] = -1
    if without_prior is not None:
        column[without_prior] = -1
    copy_prior(people.ingested, out, column)
