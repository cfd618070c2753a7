"""Test `murmur expand --earlier`: old profiles are re-estimated, and what is no earlier release is refused."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.tasks.data.test_expand import CODES, HELD, PLAIN, read_csv, release, run


def series_of_two(tmp_path, codes, newer):
    """Publish a first release, and a second one that repeats its groups before a newer cohort."""
    sizes = [3] * len(codes)
    first = release(tmp_path / "first", codes, sizes=sizes)
    second = release(tmp_path / "second", np.vstack([codes, newer]), sizes=sizes + [4] * len(newer))
    return first, second


def test_old_profiles_get_the_levels_of_the_newest_groups(tmp_path, capsys):
    # One group whose item levels are 2, 2, 2, 2, 2, and newer ones that say 1, 2, 3, 2, 2; no tastes.
    first, second = series_of_two(
        tmp_path, [[10, 10, 10, 10, 10]], [[0, 10, 20, 10, 10], [5, 15, 25, 15, 15]]
    )
    code, answer, _ = run(capsys, second, "--to", "csv", tmp_path / "out.csv", "--earlier", first)
    assert code == 0
    assert answer["refined"]
    _, rows = read_csv((tmp_path / "out.csv").read_text())
    old = pq.read_table(second / "members.parquet").to_pandas().set_index("group").loc[0, "user"].iloc[0]
    assert [rows[old, item] for item in PLAIN] == pytest.approx([1.0, 2.0, 3.0, 2.0, 2.0])


def test_the_newest_groups_stay_as_published(tmp_path, capsys):
    rng = np.random.default_rng(5)
    codes, newer = rng.integers(0, 41, (6, 5)), rng.integers(0, 41, (7, 5))
    first, second = series_of_two(tmp_path, codes, newer)
    run(capsys, second, "--to", "csv", tmp_path / "plain.csv")
    run(capsys, second, "--to", "csv", tmp_path / "refined.csv", "--earlier", first)
    _, plain = read_csv((tmp_path / "plain.csv").read_text())
    _, refined = read_csv((tmp_path / "refined.csv").read_text())
    members = pq.read_table(second / "members.parquet").to_pylist()
    group = {member["user"]: member["group"] for member in members}
    assert plain.keys() == refined.keys()
    assert all(refined[cell] == plain[cell] for cell in plain if group[cell[0]] >= len(codes))
    assert any(refined[cell] != plain[cell] for cell in plain)
    assert all(1 <= value <= 5 for value in refined.values())


def test_an_earlier_release_that_was_changed_is_refused(tmp_path, capsys):
    first, second = series_of_two(tmp_path, CODES, CODES[:2] // 2)
    (first / "items.parquet").write_bytes(b"")
    code, *_ = run(capsys, second, "--to", "csv", tmp_path / "out.csv", "--earlier", first)
    assert code == 3
    assert not (tmp_path / "out.csv").exists()


def test_profiles_that_do_not_hold_every_item_of_their_cohort_are_refused(tmp_path, capsys):
    first = release(tmp_path / "first", CODES, held=HELD)
    second = release(tmp_path / "second", CODES, held=HELD)
    code, answer, _ = run(capsys, second, "--to", "csv", tmp_path / "out.csv", "--earlier", first)
    assert code == 2
    assert "padded" in json.dumps(answer)


def series_of_three(tmp_path, held, catalogues):
    """Publish three releases with two groups more in each; the cohorts hold the given items."""
    codes = np.random.default_rng(6).integers(0, 41, (6, 5))
    held = np.repeat(np.array(held, bool), 2, axis=0)
    return [
        release(
            tmp_path / f"release {number}",
            codes[: 2 * number, :n_items],
            held=held[: 2 * number, :n_items],
            items=PLAIN[:n_items],
            padded=True,
        )
        for number, n_items in zip((1, 2, 3), catalogues, strict=True)
    ]


GROWING = ([[1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [1, 1, 0, 0, 1]], (3, 4, 5))


def refined_rows(capsys, out, newest, earlier):
    code, answer, _ = run(capsys, newest, "--to", "csv", out, "--earlier", *earlier)
    assert (code, answer.get("refined")) == (0, True), answer
    return out.read_text()


def test_earlier_releases_may_be_given_in_any_order(tmp_path, capsys):
    first, second, third = series_of_three(tmp_path, *GROWING)
    in_order = refined_rows(capsys, tmp_path / "1.csv", third, [first, second])
    assert refined_rows(capsys, tmp_path / "2.csv", third, [second, first]) == in_order


def test_cohorts_of_a_withdrawn_release_are_told_by_their_items(tmp_path, capsys):
    first, second, third = series_of_three(tmp_path, *GROWING)
    complete = refined_rows(capsys, tmp_path / "1.csv", third, [first, second])
    assert refined_rows(capsys, tmp_path / "2.csv", third, [first]) == complete
    assert refined_rows(capsys, tmp_path / "3.csv", third, [second]) == complete


def test_cohorts_of_a_withdrawn_release_that_cannot_be_told_apart(tmp_path, capsys):
    # Neither of the later two cohorts has a new item: either may be the older one.
    first, _, third = series_of_three(
        tmp_path, [[1, 1, 1, 1, 1], [0, 1, 1, 1, 0], [1, 1, 0, 0, 1]], (5, 5, 5)
    )
    code, answer, _ = run(capsys, third, "--to", "csv", tmp_path / "out.csv", "--earlier", first)
    assert code == 2
    assert "do not show which of them are older" in answer["error"]["what"]


def test_what_is_not_an_earlier_release_is_refused_with_the_reason(tmp_path, capsys):
    first, second, third = series_of_three(tmp_path, *GROWING)
    other = release(tmp_path / "other", CODES, padded=True)
    coarse = release(tmp_path / "coarse", CODES, step=0.5)
    left = release(
        tmp_path / "left", np.vstack([CODES[:1], CODES[:2] // 2])
    )  # CODES before three groups left
    for newest, earlier, reason in (
        (second, [second], "itself"),
        (second, [first, first], "given twice"),
        (second, [first, third], "a later release"),
        (third, [first, other], "another series"),
        (third, [coarse], "rating_step differ"),
        (left, [other], "people have left since"),
    ):
        code, answer, _ = run(capsys, newest, "--to", "csv", tmp_path / "out.csv", "--earlier", *earlier)
        assert code == 2
        assert reason in answer["error"]["what"]
        assert answer["error"]["where"] == f"--earlier {earlier[-1]}"
    assert not (tmp_path / "out.csv").exists()


def test_nothing_is_refined_where_all_groups_are_of_one_cohort(tmp_path, capsys):
    first = release(tmp_path / "first", CODES)
    second = release(tmp_path / "second", CODES[::-1])
    code, answer, _ = run(capsys, second, "--to", "csv", tmp_path / "out.csv", "--earlier", first)
    assert (code, answer["refined"]) == (0, False)
