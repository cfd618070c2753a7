"""Test report.html and README.md: complete, deterministic, self-contained, without any user id."""

import functools
import html
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import made_releases as made
import numpy as np
import pytest

from checks.gate import judge_case, run_check
from checks.registry import registered
from checks.report import (
    MethodWords,
    OwnerFacts,
    Past,
    PastRelease,
    figures,
    write_owner_report,
    write_readme,
    write_report,
)
from checks.report.cards import cards
from checks.report.page import EXPLAINED
from checks.report.ranking import _beside_popularity
from checks.report.rendering import share
from checks.report.rows import rows
from checks.result import CheckResult, Verdict
from tasks.store import write_json

WORDS = MethodWords(publishes="Everybody in a group has the same profile.")


class Page(HTMLParser):
    """Record open tags and everything a browser might fetch."""

    VOID = ("meta", "br", "hr", "img", "input", "link", "path", "use", "line", "circle")

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        self.fetched += [
            v for k, v in attributes if k in ("src", "href", "xlink:href", "srcset") and v[0] != "#"
        ]

    def handle_startendtag(self, tag, attributes):
        self.fetched += [v for k, v in attributes if k in ("src", "href", "xlink:href") and v[0] != "#"]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def reported(releases, tmp_path_factory):
    """Judge a release and write its report, once for all tests that read it: (name) → case, verdict, page."""

    @functools.cache
    def build(name="padded"):
        opened = made.case(releases[name], tmp_path_factory.mktemp("reported"))
        verdict = judge_case(opened, {})
        warned = [replace(c, passed=False) if c.severity == "advisory" else c for c in verdict.checks]
        verdict = replace(
            verdict, checks=[replace(c, applicable=True) if not c.passed else c for c in warned]
        )
        write_report(opened.release.directory, verdict, opened.private / "utility", WORDS)
        return opened, verdict, (opened.release.directory / "report.html").read_text()

    return build


def read(page):
    parser = Page()
    parser.feed(page)
    assert parser.open == []
    return parser, " ".join(parser.text)


def part(page, name):
    """Return the section of the page with this id in its heading."""
    start = page.index(f'aria-labelledby="{name}"')
    return page[start : page.index("</section>", start)]


def test_every_check_is_on_the_page_with_its_words(reported):
    _, verdict, page = reported()
    _, text = read(page)
    text = re.sub(r"\s+", " ", text)
    assert "This release may be published" in text
    for check, about in ((check, registered()[check.name].about) for check in verdict.checks):
        for words in (about.title, about.knows, about.tries, about.means, check.detail):
            assert re.sub(r"\s+", " ", words) in text
    assert part(page, "attacks").count('class="row warning"') == 1
    assert page.count('role="img" aria-label=') >= len([c for c in verdict.checks if c.outcomes])


def test_checks_that_cannot_fail_stand_apart(reported):
    _, verdict, page = reported()
    apart = part(page, "apart")
    for check in verdict.checks:
        assert (f' id="{check.name}"' in apart) is not check.applicable
    assert apart.count('<span class="status">not applicable</span>') == len(verdict.not_applicable) > 0
    assert 'class="dot' not in apart, "no figure is drawn that is no evidence"


def test_figures_have_three_digits_and_units(reported):
    """Outside what the checks say in detail, no figure has more than three significant digits, unless it counts."""
    _, _, page = reported()
    words = re.sub(
        r'<style>.*?</style>|<code>.*?</code>|<p class="detail">.*?</p>', "", page, flags=re.DOTALL
    )
    words = re.sub(r"<[^>]*>", " ", words)
    assert not [one for one in re.findall(r"\d+\.\d+", words) if len(one.replace(".", "").lstrip("0")) > 3]
    assert not re.findall(r"\b[a-z]+_[a-z_]+\b", words)
    assert "e-0" not in words


def test_the_public_edition_has_nothing_of_the_owners(case):
    """Who waits, what was refused or tried, the real ratings: only the owner's edition has them."""
    opened = case()
    shares = {
        "edges": [1, 3, 5],
        "observed_share": [0.01, 0.03],
        "null_share": 0.96,
        "padded_share": [0.4, 0.6],
    }
    write_json(opened.private / "utility" / "summary.json", {"histogram": shares})
    past = Past(
        (PastRelease("2025-12-01", 250, 40, 250, "withdrawn", 7),), 50, 9, 40, waiting=4711, withdrawn=1
    )
    line = CheckResult("homogeneity", True, 0.1, 0.5, 0.05, 0.2, 9, "gate", "by hand", attempts=3)
    owner = OwnerFacts(
        "raise `privacy.k`", {"Newcomers": "a cohort was refused"}, {"Setting privacy.k": "5"}, "9.9", past
    )
    place = opened.release.directory
    write_report(place, Verdict([line], 3), opened.private / "utility", WORDS, past)
    write_owner_report(opened.private, place, Verdict([line], 3), opened.private / "utility", WORDS, owner)
    public, private = ((one / "report.html").read_text() for one in (place, opened.private))
    _, words = read(public[public.index("<body>") :].removesuffix("</html>\n"))
    for word in (
        "4,711",
        "withdrawn",
        "Withdrawn",
        "cohort was refused",
        "ttempt",
        "before",
        "9.9",
        "Setting",
    ):
        assert word in part(private, "since") + part(private, "data") + part(private, "made"), word
        assert word not in words.replace("before anything", ""), word
    assert "2025-12-01" in part(public, "since")
    assert "98.33 %" in public


def test_a_refusal_says_what_failed_why_and_what_to_do(reported):
    opened, verdict, page = reported("single contributors")
    assert not verdict.passed
    write_owner_report(
        opened.private,
        opened.release.directory,
        verdict,
        opened.private / "utility",
        WORDS,
        OwnerFacts("raise `privacy.k`"),
    )
    for text in (page, (opened.private / "report.html").read_text()):
        first = text[text.index('aria-labelledby="verdict"') : text.index('class="cards"')]
        assert "must not be published" in first
        explained = [
            name for name in verdict.failed if registered()[name].about.means in html.unescape(first)
        ]
        assert len(explained) == min(EXPLAINED, len(verdict.failed))
        for name in verdict.failed:
            assert f'href="#{name}"' in first
            assert registered()[name].about.means in html.unescape(text)
            state = " open" if name in explained else ""
            assert f'<details class="row failed" id="{name}"{state}>' in text
        assert first.index("What to do next") < first.index('class="failure"')
    assert "Raise <code>privacy.k</code>." in (opened.private / "report.html").read_text()
    assert "privacy.k" not in page[: page.index('class="cards"')]


def test_the_sentence_names_the_attribute_and_why_a_bound_decides():
    def achieved(observed, high, subject):
        line = CheckResult(
            "attribute-inference", False, observed, 0.6, 0.5, high, 900, "gate", "detail", subject=subject
        )
        return rows([line])[0].achieved

    assert "(gender): 58 %, with its uncertainty at most 62 % (limit 60 %). The measured" in achieved(
        0.58, 0.62, "gender"
    ).replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "the check fails" in achieved(0.58, 0.62, "")
    assert "the check fails" not in achieved(0.61, 0.65, "age")


def test_no_measured_loss_is_called_none():
    line = CheckResult("utility", True, -0.05, 0.75, None, None, 900, "gate", "detail")
    figures_of = {"original_rmse": 0.966, "target_deviation_rmse": 0.965, "random_group_rmse": 1.03}
    manifest = {"privacy": {"k": 5}, "counts": {"users": 600}}
    loss = cards(rows([line]), manifest, {"figures": figures_of}, None)[2]
    assert loss.figure == "none"
    assert "no worse than from the full data (error 0.965 against 0.966; random groups 1.03" in loss.caption
    assert (
        cards(rows([replace(line, observed=0.05)]), manifest, {"figures": figures_of}, None)[2].figure
        != "none"
    )


@pytest.mark.parametrize(
    ("popularity", "words"),
    [(0.1, "; better than a list"), (0.15, "; about as good as a list"), (0.3, "; worse than a list")],
)
def test_ranking_is_compared_with_popularity(popularity, words):
    measured = {"own_history_ndcg_low": 0.12, "own_history_ndcg_high": 0.2, "popularity_ndcg": popularity}
    assert words in _beside_popularity(measured)
    assert _beside_popularity(measured | {"own_history_ndcg_low": None}) == ""


@pytest.mark.parametrize("missing", ["observed", "utility"])
def test_a_release_without_public_figures_has_a_report(case, missing):
    """Synthetic rows publish what passed and no figure; the page says that these are not stated."""
    opened = case()
    lines = [
        CheckResult(
            check.name,
            True,
            None,
            check.threshold,
            None,
            None,
            0,
            check.severity,
            "The figures are the owner's.",
        )
        for check in registered().values()
    ]
    if missing == "utility":
        (opened.private / "utility" / "heldout.parquet").unlink()
    write_report(opened.release.directory, Verdict(lines), opened.private / "utility", WORDS)
    page = (opened.release.directory / "report.html").read_text()
    _, text = read(page)
    assert text.count("not stated") >= len(lines)
    assert 'class="dot passed"' not in page
    assert "Risk of being named" in text


def test_an_unknown_check_is_shown(case):
    opened = case()
    line = CheckResult("of-a-later-version", True, 0.25, 0.5, None, None, 3, "gate", "found it")
    write_report(opened.release.directory, Verdict([line]), opened.private / "utility", WORDS)
    _, text = read((opened.release.directory / "report.html").read_text())
    assert "of-a-later-version" in text
    assert "found it" in text


def test_values_cannot_add_markup(case):
    """Whatever a detail or a method says, it is text; quotation marks stay readable in Markdown."""
    opened = case()
    odd = CheckResult("x", False, 1, 1, None, None, 1, "gate", "a <script>alert('b')</script> & c", void=True)
    words = MethodWords(publishes="People's <b>data</b>.")
    write_report(opened.release.directory, Verdict([odd]), opened.private / "utility", words)
    page = (opened.release.directory / "report.html").read_text()
    assert "<script" not in page
    assert "<b>" not in page
    _, text = read(page)
    assert odd.detail in text
    assert "failed (void)" in text
    write_readme(opened.release.directory, words)
    assert "People's &lt;b&gt;data&lt;/b&gt;." in (opened.release.directory / "README.md").read_text()


def test_nothing_is_fetched_and_nobody_is_named(reported):
    _, _, page = reported()
    parser, text = read(page)
    assert parser.fetched == []
    assert not re.findall(r"url\((?!#)", page)
    assert set(re.findall(r"https?://[^\"\s<]+", page)) <= {
        "http://www.w3.org/2000/svg",  # names of XML vocabularies, never loaded
        "http://www.w3.org/1999/xlink",
    }
    assert not re.search(r"person \d", text)
    assert "<script" not in page


def test_the_same_bytes_every_time(reported):
    opened, verdict, page = reported()
    write_report(opened.release.directory, verdict, opened.private / "utility", WORDS)
    assert (opened.release.directory / "report.html").read_text() == page


def test_a_report_is_written_whatever_is_missing(case):
    opened = case()
    (opened.private / "utility" / "heldout.parquet").unlink()
    (opened.private / "utility" / "summary.json").unlink()
    (opened.release.directory / "groups.parquet").write_bytes(b"nonsense")
    write_report(opened.release.directory, Verdict([]), opened.private / "utility", WORDS)
    _, text = read((opened.release.directory / "report.html").read_text())
    assert "cannot be read" in text
    assert "no check was run that could have refused it" in text


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ((50_000, 480_189, True, 5_000), "50,000 of 480,189 people (a seeded sample), 5,000 of them ranked"),
        ((475, 500, False, 475), "475 of 500 people (all but 25 left out on purpose), 475 of them ranked"),
        ((30, 30, False, 30), "30 of 30 people (all), 30 of them ranked"),
    ],
)
def test_the_page_says_whom_the_shadow_run_was_made_of(case, summary, said):
    opened = case()
    names = ("users", "source_users", "sampled", "ranked_users")
    write_json(opened.private / "utility" / "summary.json", dict(zip(names, summary, strict=True)))
    write_report(opened.release.directory, Verdict([]), opened.private / "utility", WORDS)
    _, text = read((opened.release.directory / "report.html").read_text())
    assert said in text


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_ratings_are_counted_once_per_person(case, name):
    release = case(name).release
    counted: dict[float, int] = {}
    for values, people in figures.published_values(release):
        for value, number in zip(values.tolist(), people.tolist(), strict=True):
            counted[value] = counted.get(value, 0) + number
    (block,) = release.blocks()
    expected: dict[float, int] = {}
    for value, row in zip(block.values.tolist(), block.row_numbers(), strict=True):
        expected[value] = expected.get(value, 0) + int(release.listed[row])
    assert counted == expected


@pytest.mark.parametrize("every_item", [False, True])
def test_single_people_are_called_so(tmp_path, every_item):
    """Publish two people's z-scores, of the items they rated or of every item."""
    matrix = made.csr(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]), np.array([1.0, 5, 2, 4]), (2, 3))
    values = np.array([[-1, 1, np.nan], [np.nan, -1, 1]], dtype=np.float32)
    values = np.nan_to_num(values) if every_item else values
    disguised = made.Made(
        matrix, np.arange(2), values, k=2, c=1, step=0.0, method="perturbation", unit="z-score"
    )
    opened = made.case(disguised, tmp_path)
    write_readme(opened.release.directory, WORDS)
    text = (opened.release.directory / "README.md").read_text()
    assert "2 records, one person's each." in text
    assert "added" not in text
    assert "unless" not in text
    assert ("An item of a record was rated by its owner." in text) is not every_item
    write_report(opened.release.directory, Verdict([]), opened.private / "utility", WORDS)
    report = (opened.release.directory / "report.html").read_text()
    assert "Records per item (l)" in report
    assert "Groups per item" not in report
    assert "every one is a single person" in report


@pytest.mark.parametrize("name", ["padded", "simple"])
def test_the_readme_loads_the_release(case, releases, name):
    directory = case(name).release.directory
    write_readme(directory, WORDS)
    text = (directory / "README.md").read_text()
    assert "$" not in text
    assert "at least 4 others" in text
    assert ("every item: that" in text) is (name == "padded")
    snippet = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    check = "assert len(profile(first)) == (len(items) if first['items'] is None else len(first['items']))\n"
    run = subprocess.run(
        [sys.executable, "-c", f"{snippet}\n{check}"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    highest = releases[name].values[0]
    assert f"{highest[~made.np.isnan(highest)].max():.1f}" in run.stdout


def test_disclosure_is_drawn_by_popularity(case):
    opened = case("simple")
    found = run_check(registered()["link-existence"], opened, 0.015)
    write_report(opened.release.directory, Verdict([found]), opened.private / "utility", WORDS)
    drawn = part((opened.release.directory / "report.html").read_text(), "disclosure")
    bins = [one for one in found.outcomes if "popularity" in one.more]
    assert drawn.count('role="listitem"') == len(bins) > 1
    assert (
        f"measured {share(bins[0].risk.rate)}, theory {share(bins[0].risk.baseline)}, of {bins[0].risk.n:,}"
        in drawn
    )
