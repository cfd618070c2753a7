"""Test report.html and README.md: complete, deterministic, self-contained, without any user id."""

import functools
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import made_releases as made
import numpy as np
import pytest

from checks.gate import judge_case
from checks.report import MethodWords, figures, write_readme, write_report
from checks.result import CheckResult, Verdict
from tasks.store import write_json

WORDS = MethodWords(publishes="Everybody in a group has the same profile.")


class Page(HTMLParser):
    """Record open tags and everything a browser might fetch."""

    VOID = ("meta", "br", "hr", "img", "input", "link", "path", "use", "rect", "line")

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


def test_every_check_is_on_the_page(reported):
    _, verdict, page = reported()
    _, text = read(page)
    assert "Passed" in text
    for check in verdict.checks:
        assert f"{check.name}: " in text
        assert re.sub(r"\s+", " ", check.detail) in re.sub(r"\s+", " ", text)
    assert text.count("advisory warning") == 2  # in the headline and beside the check
    assert page.count('<div role="img" aria-label=') == page.count("<svg ") == 3


def test_checks_that_cannot_fail_stand_apart(reported):
    _, verdict, page = reported()
    _, text = read(page)
    assert verdict.headline in text
    applicable, apart = text.split("Not applicable to this release")
    for check in verdict.checks:
        title = re.compile(rf"(?<![-a-z]){check.name}: ")  # "recovery" is not "link-recovery"
        assert bool(title.search(apart)) is not check.applicable
        assert bool(title.search(applicable)) is check.applicable
    assert apart.count(" not applicable ") == len(verdict.not_applicable) > 0


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
    assert "FAILED (void)" in text
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


def test_a_refusal_says_so(reported):
    _, verdict, page = reported("single contributors")
    assert not verdict.passed
    _, text = read(page)
    assert "Refused" in text
    assert "must not be published" in text
    assert "FAILED" in text


def test_a_report_is_written_whatever_is_missing(case):
    opened = case()
    (opened.private / "utility" / "heldout.parquet").unlink()
    (opened.private / "utility" / "summary.json").unlink()
    (opened.release.directory / "groups.parquet").write_bytes(b"nonsense")
    write_report(opened.release.directory, Verdict([]), opened.private / "utility", WORDS)
    _, text = read((opened.release.directory / "report.html").read_text())
    assert "cannot be read" in text
    assert "no applicable gating check was run" in text


def test_histograms_of_the_shadow_run_are_drawn(case):
    opened = case()
    shares = {
        "edges": [1, 3, 5],
        "observed_share": [0.01, 0.03],
        "null_share": 0.96,
        "padded_share": [0.4, 0.6],
    }
    write_json(opened.private / "utility" / "summary.json", {"histogram": shares})
    write_report(opened.release.directory, Verdict([]), opened.private / "utility", WORDS)
    page = (opened.release.directory / "report.html").read_text()
    assert "the 4.00% of all cells" in page
    assert "padded" in page


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
