"""Test that orders and metadata which follow the source are refused, and honest ones are not."""

import os
from dataclasses import replace

import made_releases as made
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.evidence.source_matrix import NOWHERE
from checks.registry import registered
from tasks.store import read_json, write_json


@pytest.fixture(scope="module")
def release():
    """Sixty groups of 300 people, numbered at random."""
    return made.grouped(made.synthetic(), 5)


def judged(release, root, change=None, pseudonyms=None):
    published, private = made.write(release, root / "x", pseudonyms)
    if change:
        change(published)
        made.seal(published)
    return run(made.reopen(release, published, private))


def run(case):
    return registered()["ordering"].run(case, 0)


def test_an_honest_release_passes(release, tmp_path):
    found = judged(release, tmp_path)
    assert (found.passed, found.observed) == (True, 0), found.detail
    assert found.n > 40


def test_rows_of_the_source_are_found(release, tmp_path):
    published, private = made.write(release, tmp_path / "x")
    truth = made.reopen(release, published, private).truth
    owners = np.repeat(release.users, np.diff(release.ratings.indptr)).tolist()
    first = {user: owners.index(user) for user in release.users}
    assert truth.first_rows.tolist() == [first[user] for user in truth.membership.users.to_pylist()]
    items = release.items[release.ratings.indices]
    expected = [int(np.flatnonzero(items == item)[0]) for item in release.items]
    assert truth.first_item_rows.tolist() == expected
    assert truth.first_rows.max() < NOWHERE


@pytest.mark.parametrize("by", ["source", "activity", "backwards"])
def test_groups_numbered_by_their_members_are_refused(release, tmp_path, by):
    if by == "activity":
        rated = np.diff(release.ratings.indptr)
        key = np.bincount(release.group_of, rated) / np.bincount(release.group_of)
        number = np.argsort(np.argsort(key))
        planted = release.but(group_of=number[release.group_of], values=release.values[np.argsort(key)])
    else:
        planted = made.numbered_by_source(release)
        if by == "backwards":
            last = planted.n_groups - 1
            planted = planted.but(group_of=last - planted.group_of, values=planted.values[::-1])
    found = judged(planted, tmp_path)
    assert not found.passed
    assert "group numbers by" in found.detail
    assert "person" not in found.detail


def test_admission_is_an_order_of_the_source(release, tmp_path):
    """Days that follow the pseudonyms, in a source whose rows and ids do not."""
    published, private = made.write(release, tmp_path / "x")
    case = made.reopen(release, published, private)
    rated = np.diff(case.truth.ratings.indptr)
    for days, passed in (
        (np.repeat(np.arange(len(rated)), rated), False),  # rows of the truth lie by pseudonym
        (np.repeat(np.random.default_rng(1).permutation(len(rated)), rated), True),
    ):
        found = run(replace(case, given_truth=replace(case.truth, days=days.astype(np.int32))))
        assert found.passed is passed
        assert ("by admission" in found.detail) is not passed


def test_pseudonyms_in_the_order_of_the_source_are_refused(release, tmp_path):
    found = judged(release, tmp_path, pseudonyms=[f"{number:05d}" for number in range(300)])
    assert not found.passed
    assert "pseudonyms by" in found.detail


def test_rows_of_members_in_the_order_of_the_source_are_refused(release, tmp_path):
    def reorder(published):
        table = pq.read_table(published / "members.parquet")
        number = {made.keyed_name(user): user for user in range(300)}
        in_order = np.argsort([number[name] for name in table["user"].to_pylist()])
        pq.write_table(table.take(in_order), published / "members.parquet")

    found = judged(release, tmp_path, reorder)
    assert not found.passed
    assert "rows of members by" in found.detail


def test_items_in_the_order_of_the_source_are_refused(release, tmp_path):
    """Ids whose order has nothing to do with the rows; listed by first appearance, or by id."""
    ids = np.array([f"{number:04d}" for number in np.random.default_rng(4).permutation(9999)[:200]])
    first = np.array([int(np.flatnonzero(release.ratings.indices == item)[0]) for item in range(200)])
    for order, passed in ((np.argsort(first), False), (np.argsort(ids), True)):
        columns = release.ratings[:, order]
        columns.sort_indices()
        # The source keeps its rows: people's ratings in the order of the ids.
        listed = release.but(ratings=columns, values=release.values[:, order], item_ids=ids[order].tolist())
        published, private = made.write(listed, tmp_path / str(passed))
        whole = release.but(item_ids=ids.tolist())
        files = made.Release(published)
        truth = made.Truth.build(files, made.Membership.read(private), made.blocks(whole))
        found = run(made.Case(files, truth, private))
        assert found.passed is passed, found.detail
        assert ("items by source row" in found.detail) is not passed


def written(name, **options):
    def change(published):
        table = pq.read_table(published / name)
        pq.write_table(table, published / name, **options)

    return change


def tagged(published):
    table = pq.read_table(published / "groups.parquet")
    pq.write_table(table.replace_schema_metadata({"made from": "person 1"}), published / "groups.parquet")


def tagged_column(published):
    table = pq.read_table(published / "items.parquet")
    field = table.schema.field("item").with_metadata({"first": "person 1"})
    pq.write_table(table.cast(pa.schema([field])), published / "items.parquet")


@pytest.mark.parametrize("change", [tagged, tagged_column])
def test_metadata_that_no_column_explains_is_refused(release, tmp_path, change):
    found = judged(release, tmp_path, change)
    assert (found.passed, found.observed) == (False, 1)
    assert "person" not in found.detail


@pytest.mark.parametrize(
    "options", [{"write_statistics": False}, {"row_group_size": 7}, {"compression": "zstd"}]
)
def test_how_a_file_is_written_is_no_violation(release, tmp_path, options):
    assert judged(release, tmp_path, written("groups.parquet", **options)).passed


def test_row_groups_that_follow_activity_are_refused(tmp_path):
    """Three hundred records, cut where the ratings fill a block; with equal numbers of records nothing is shown."""
    ratings = made.synthetic(users=1200, items=60, density=0.2)
    draw = np.random.default_rng(6)
    place = draw.permutation(1200)
    values = np.full((1200, 60), 3.0, np.float32)
    release = made.Made(ratings, place, values, k=5, c=1, method="perturbation")
    rated = np.empty(1200)
    rated[place] = np.diff(ratings.indptr)
    cuts = np.flatnonzero(np.diff(np.cumsum(rated) // 100)) + 1

    def cut(published):
        table = pq.read_table(published / "groups.parquet")
        with pq.ParquetWriter(published / "groups.parquet", table.schema) as writer:
            for part in np.split(np.arange(1200), cuts):
                writer.write_table(table.take(part), row_group_size=len(part))

    found = judged(release, tmp_path / "cut", cut)
    assert not found.passed
    assert "sizes of row groups by" in found.detail
    assert judged(release, tmp_path / "equal", written("groups.parquet", row_group_size=10)).passed


def test_files_that_claim_to_be_older_than_their_data(release, tmp_path):
    published, private = made.write(release, tmp_path / "x")
    case = made.reopen(release, published, private)
    now = (published / "items.parquet").stat().st_mtime
    days = (
        np.random.default_rng(2).integers(9000, int(now // 86_400), case.truth.ratings.nnz).astype(np.int32)
    )
    dated = replace(case, given_truth=replace(case.truth, days=days))
    assert run(dated).passed
    os.utime(published / "groups.parquet", (9500 * 86_400,) * 2)
    assert not run(dated).passed
    for name in ("members.parquet", "items.parquet"):
        os.utime(published / name, (9500 * 86_400,) * 2)
    assert run(dated).passed  # a copy without times
    manifest = read_json(published / "manifest.json")
    write_json(published / "manifest.json", manifest | {"created_at": "2024-01-01T00:00:00+00:00"})
    late = replace(case, release=made.Release(published), given_truth=dated.truth)
    assert not run(late).passed
