"""Test the figures of ranking as a page shows them."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from checks.evidence import shadow_ranking
from checks.report import MethodWords, write_readme, write_report
from checks.report.ranking import ranking_rows
from checks.report.rendering import share
from checks.result import CheckResult, Verdict
from tests import made_choices

PASSED = Verdict([CheckResult("x", True, 0, 1, None, None, 1, "gate", "fine")])


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    place = tmp_path_factory.mktemp("measured")
    ratings = made_choices.choices()
    made_choices.write_evidence(place, ratings, ratings, np.full(made_choices.PEOPLE, -1))
    return place


def test_a_row_for_each_source_and_a_column_for_each_part(measured):
    figures = shadow_ranking.summary(measured)
    original, own, group, popularity = ranking_rows(figures, single=False)
    assert own.ndcg == figures["own_history_ndcg"] > popularity.ndcg
    assert own.low < own.ndcg < own.high
    assert (group.ndcg, group.low, group.recall) == (None, None, None)
    assert list(original.parts) == ["head items", "tail items", "light users", "heavy users"]
    assert original.parts["heavy users"] == figures["parts"]["heavy"]["original_ndcg"]
    assert "record" in ranking_rows(figures, single=True)[2].source


def test_the_page_shows_what_was_measured(case, measured):
    opened = case()
    utility = opened.private / "utility"
    pq.write_table(pq.read_table(measured / "ranking.parquet"), utility / "ranking.parquet")
    write_report(opened.release.directory, PASSED, utility, MethodWords(publishes="Profiles."))
    page = (opened.release.directory / "report.html").read_text()
    assert "release, own history" in page
    found = shadow_ranking.summary(utility)
    assert f"{found['own_history_ndcg']:.3g}" in page
    assert f'<p class="big">{share(found["own_history_ndcg"] / found["original_ndcg"])}</p>' in page
    (utility / "ranking.parquet").unlink()
    write_report(opened.release.directory, PASSED, utility, MethodWords(publishes="Profiles."))
    assert "Ranking: not measured." in (opened.release.directory / "report.html").read_text()


def test_the_readme_says_where_to_look(case):
    opened = case()
    write_readme(opened.release.directory, MethodWords(publishes="Profiles."))
    text = (opened.release.directory / "README.md").read_text()
    assert "Ranking" in text
