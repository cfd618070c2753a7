"""Test that titles and genres beside items are the source's and nothing else, and that footers do not add to them."""

import dataclasses
import io

import made_releases as made
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.evidence import file_metadata
from checks.gate import run_check, verify
from checks.registry import registered
from tasks.config import Source
from tasks.errors import Refused


@pytest.fixture
def titled(violated, tmp_path):
    """Build a release with these columns beside the ids, and the case with a source that calls item i `Title i`."""

    def build(**columns):
        def add(published, _private):
            table = pq.read_table(published / "items.parquet")
            for name, values in columns.items():
                table = table.append_column(name, pa.array(values(table.num_rows), pa.string()))
            pq.write_table(table, published / "items.parquet")

        published, private, release = violated(add)
        catalogue = tmp_path / "items.csv"
        rows = [f"{item},Title {at}" for at, item in enumerate(release.items)]
        catalogue.write_text("\n".join(["item,title", *rows]) + "\n")
        source = Source(
            format="csv", path="x.csv", scale=(1, 5), catalogue={"path": str(catalogue), "title": "title"}
        )
        return published, dataclasses.replace(made.reopen(release, published, private), source=source)

    return build


def judged(case):
    return run_check(registered()["integrity"], case, 0)


def own_titles(number):
    return [f"Title {at}" for at in range(number)]


def test_titles_of_the_source_pass(titled):
    published, case = titled(title=own_titles)
    assert judged(case).passed
    assert verify(published).passed


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"title": lambda n: ["liked by person 17", *own_titles(n)[1:]]},
            "items whose title is not the source's: 1",
        ),
        ({"title": lambda n: [None, *own_titles(n)[1:]]}, "items whose title is not the source's: 1"),
        (
            {"title": own_titles, "genres": lambda n: ["fans", *[None] * (n - 1)]},
            "whose genres is not the source's: 1",
        ),
    ],
)
def test_any_other_text_is_refused(titled, columns, words):
    _, case = titled(**columns)
    answer = judged(case)
    assert not answer.passed
    assert words in answer.detail
    assert "17" not in answer.detail


def test_titles_need_a_source_that_knows_them(titled):
    _, case = titled(title=own_titles)
    assert not judged(
        dataclasses.replace(case, source=Source(format="csv", path="x.csv", scale=(1, 5)))
    ).passed


@pytest.mark.parametrize("names", [("genres", "title"), ("title", "fans")])
def test_other_columns_are_refused(titled, names):
    with pytest.raises(Refused, match="columns are item string"):
        titled(**dict.fromkeys(names, own_titles))


def test_false_statistics_of_titles_are_found(tmp_path):
    """A footer may name a lowest title that no item has."""
    good = io.BytesIO()
    pq.write_table(pa.table({"item": ["1"], "title": ["Brazil"], "genres": [None]}), good)
    bad = good.getvalue()
    footer = bad.rindex(b"Brazil")
    forged = bad[:footer] + b"Person" + bad[footer + 6 :]
    for content, false in ((bad, False), (forged, True)):
        with pq.ParquetFile(io.BytesIO(content)) as file:
            assert file_metadata._false_statistics(file, ("item", "title", "genres")) is false
