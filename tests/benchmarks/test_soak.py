"""Test that the soak distinguishes linear from faster growth, and that it counts what is there."""

import argparse
import tomllib

import pytest
import sqlalchemy as sa

from benchmarks.soak import IN_THE_STACK, OF_ONE, WORDS, bars, ratio_of_halves, show, smooth
from benchmarks.soak_figures import count_below, release_tables, rows_of
from benchmarks.soak_stack import release_file
from tasks.config import parse


@pytest.mark.parametrize(
    ("values", "ratio"),
    [
        (list(range(201)), 1.0),
        ([1000 + 3 * n for n in range(401)], 1.0),
        ([n * n for n in range(201)], 3.0),
        ([100.0] * 201, None),
        ([1000 + 0.1 * n for n in range(201)], None),  # a fiftieth in all
        ([0] * 101 + list(range(100)), float("inf")),
    ],
)
def test_growth_of_the_second_half_against_the_first(values, ratio):
    assert ratio_of_halves(values) == ratio


def test_one_slow_release_is_not_growth():
    values = [1.0] * 200
    values[-1] = values[150] = 9.0
    assert ratio_of_halves(smooth(values)) is None


ALL = WORDS | IN_THE_STACK


def runs(**changed):
    plain = {name: (lambda n: 10.0) if name in OF_ONE else (lambda n: 5.0 * n) for name in ALL}
    figures = {**plain, **changed}
    return [
        {"release": n, "status": "published", **{name: float(of(n)) for name, of in figures.items()}}
        for n in range(1, 202)
    ]


@pytest.mark.parametrize("name", sorted(ALL))
def test_each_figure_that_grows_with_the_square_misses_its_bar(name):
    assert all(bar.passed for bar in bars(runs()))
    missed = [bar.name for bar in bars(runs(**{name: lambda n: n * n})) if not bar.passed]
    assert missed == [f"{ALL[name]}, second half against first"]
    assert ALL[name] in show(runs())


def test_a_refused_release_misses_its_bar():
    found = runs()
    found[7]["status"] = "refused"
    assert [bar.name for bar in bars(found) if not bar.passed] == ["releases published"]


def test_files_and_rows_are_counted(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"123")
    (tmp_path / "a" / "b" / "two").write_bytes(b"4567")
    assert count_below(tmp_path / "a") == (2, 7)
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with engine.begin() as db:
        for words in (
            "CREATE TABLE p (i INT)",
            "CREATE TABLE q (i INT)",
            "INSERT INTO p VALUES (1), (2)",
            "INSERT INTO q VALUES (3)",
        ):
            db.execute(sa.text(words))
    engine.dispose()
    assert rows_of(f"sqlite:///{tmp_path / 'x.db'}") == 3


def test_the_stack_makes_the_same_release():
    asked = argparse.Namespace(users=300, items=80, churn=0.0)
    one, other = parse(tomllib.loads(release_file(asked))), parse(release_tables(300, 80, 0.0))
    assert one.release.schedule is None
    assert one.model_dump(exclude={"release": {"start_date"}}) == other.model_dump(
        exclude={"release": {"start_date"}}
    )
