"""Test the documentation: links, citations, forbidden references, named files, decisions and the citation file."""

import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
CITATION_KEY = re.compile(r"\[(?:[A-Z][A-Za-z]+(?:19|20)\d\d|RFPP)\]")
REPOSITORY_PATH = re.compile(
    r"`((?:tasks|checks|tests|dags|benchmarks|docs|docker)/[\w./-]+\.(?:py|md|toml|yaml|json))`"
)

# References to documents that are not in this repository. Written so that this file does not contain them.
FORBIDDEN = re.compile("SCI" + r"ENCE\b|[Tt]he contract" + r" says|\b[Pp]aper 00" + r"\d|\bDES" + r"IGN\.md")


@cache
def tracked(*suffixes: str) -> tuple[Path, ...]:
    """Return the files of the repository with these suffixes, new ones that are not ignored included."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return tuple(ROOT / name for name in listed if Path(name).suffix in suffixes and (ROOT / name).exists())


def markdown_pages() -> tuple[Path, ...]:
    return tracked(".md")


def relative_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def prose(path: Path) -> str:
    """Return a page without its code blocks, which may show links and brackets of other languages."""
    return re.sub(r"^```.*?^```", "", read(path), flags=re.M | re.S)


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors of a page's headings as repository hosts derive them."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.M)
    kept = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings)
    return frozenset(heading.replace(" ", "-") for heading in kept)


def broken_links(page: Path) -> list[str]:
    broken = []
    for match in LINK.finditer(prose(page)):
        target = match.group(1) or match.group(2)
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        if not place.exists() or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", markdown_pages(), ids=relative_name)
def test_links_resolve(page):
    assert broken_links(page) == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# A heading: one\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#a-heading-one) [c](other.md#two) [d](gone.md) ![e](gone.svg) [f](mailto:x@y.z)\n"
        "```python\nvalues[0](gone.py)\n```\n"
    )
    assert broken_links(page) == ["other.md#two", "gone.md", "gone.svg"]


@cache
def bibliography_keys() -> frozenset[str]:
    """Return the keys that have an entry: the first cell of a table row."""
    page = read(ROOT / "docs" / "bibliography.md")
    return frozenset(re.findall(rf"^\| ({CITATION_KEY.pattern}) \|", page, re.M))


def test_cited_works_are_in_the_bibliography():
    cited = {
        key: relative_name(path)
        for path in tracked(".py", ".md", ".toml", ".html", ".j2")
        for key in CITATION_KEY.findall(read(path))
    }
    assert {key: path for key, path in cited.items() if key not in bibliography_keys()} == {}


def test_bibliography_has_the_implemented_papers():
    papers = {"[Chang2009]", "[Zhang2006]", "[Frankowski2006]", "[Casino2015]", "[RFPP]"}
    assert papers <= bibliography_keys()


@pytest.mark.parametrize("kind", [".md", ".py", ".toml", ".html", ".j2"])
def test_no_reference_to_absent_documents(kind):
    found = {
        relative_name(path): sorted(set(FORBIDDEN.findall(read(path))))
        for path in tracked(kind)
        if FORBIDDEN.search(read(path))
    }
    assert found == {}


@pytest.mark.parametrize("page", markdown_pages(), ids=relative_name)
def test_data_outside_the_repository_is_named_by_its_variable(page):
    """`MURMUR_DATA` has a default beside the checkout; nothing else may point there."""
    lines = [line for line in read(page).splitlines() if "../shared" in line]
    assert [line for line in lines if "MURMUR_DATA" not in line] == []


@pytest.mark.parametrize("page", markdown_pages(), ids=relative_name)
def test_named_files_exist(page):
    named = set(REPOSITORY_PATH.findall(prose(page)))
    examples = {name for name in named if Path(name).stem in ("x", "films")}
    assert sorted(name for name in named - examples if not (ROOT / name).exists()) == []


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "decisions").glob("0*.md")), ids=lambda page: page.stem
)
def test_decisions_have_status_date_and_sections(page):
    text = read(page)
    assert re.search(r"^- Status: \w+", text, re.M)
    assert re.search(r"^- Date: 20\d\d-\d\d-\d\d", text, re.M)
    assert re.findall(r"^## (.*)$", text, re.M) == ["Context", "Decision", "Consequences"]
    assert f"({page.name})" in read(page.parent / "README.md"), "the index must list it"


def test_every_page_is_reachable_from_the_readme():
    start = ROOT / "README.md"
    reached, waiting = {start}, [start]
    while waiting:
        page = waiting.pop()
        for match in LINK.finditer(prose(page)):
            target = (match.group(1) or match.group(2)).partition("#")[0]
            place = (page.parent / target).resolve()
            if target and place.suffix == ".md" and place.exists() and place not in reached:
                reached.add(place)
                waiting.append(place)
    assert sorted(relative_name(page) for page in set(markdown_pages()) - reached) == []


def test_citation_file_fits_its_schema():
    schema = ("--builtin-schema", "vendor.citation-file-format")
    command = [sys.executable, "-m", "check_jsonschema", *schema, "CITATION.cff"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_citation_file_has_the_version():
    citation = yaml.safe_load(read(ROOT / "CITATION.cff"))
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert citation["authors"] == [{"name": "The Murmuration developers"}]
    headings = re.findall(r"^## (.+)$", read(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == project["version"]


# A newcomer's three first questions, and the page and file that must answer each.
ANSWERS = {
    "where to add an attack": ("docs/extending.md", "checks/attacks/x.py"),
    "where the (1,l) top-up happens": ("docs/architecture.md", "tasks/steps/diversity.py"),
    "why keep_observed is false": (
        "docs/decisions/0001-what-is-published.md",
        "`keep_observed = false` is the default",
    ),
}


@pytest.mark.parametrize("question", ANSWERS)
def test_first_questions_are_answered(question):
    page, answer = ANSWERS[question]
    assert answer in read(ROOT / page)
    assert Path(page).name in read(ROOT / "CONTRIBUTING.md") + read(ROOT / "docs" / "architecture.md")


def test_the_answer_of_every_command_is_documented():
    section = read(ROOT / "docs" / "commands.md").partition("\n## JSON\n")[2].partition("\n## ")[0]
    rows = {
        name for first in re.findall(r"^\|([^|]*)\|", section, re.M) for name in re.findall(r"`(\w+)", first)
    }
    commands = {file.stem for file in (ROOT / "tasks" / "cli").glob("[a-z]*.py")}
    assert commands <= rows
