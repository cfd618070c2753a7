"""Write report.html in two editions: one for the public, which lies in the release, and one for its owner.

The public edition has nothing that helps an attacker beyond the release's own files and checks.json: no refused
attempts, no histogram of the real ratings, nothing about people who wait. Its bytes depend only on what never changes
after publication, because its digest is in the manifest: not on the version of the program, which the manifest names.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.evidence.method_rules import rules_of
from checks.evidence.release import Release
from checks.report import facts, figures
from checks.report.cards import cards
from checks.report.past import OwnerFacts, Past
from checks.report.ranking import ranking
from checks.report.rendering import render_html
from checks.report.rows import Row, by_share_of_limit, rows
from checks.report.sentences import advice, failures, sentence
from checks.report.words import MethodWords
from checks.result import Verdict
from checks.utility.utility import summary
from tasks.errors import Refused
from tasks.store import write_bytes

FILE = "report.html"
EXPLAINED = 2  # so many failures are explained above the figures; a reader must still find what to do next


def write_report(
    release_dir: Path, verdict: Verdict, utility_dir: Path, words: MethodWords, past: Past | None = None
) -> None:
    """Write the public edition into the release's directory; the same inputs give the same bytes."""
    if past is not None:  # who waits, and what was withdrawn since, is not for the public
        past = replace(past, waiting=None, withdrawn=None)
    write_bytes(release_dir / FILE, _page(release_dir, verdict, utility_dir, words, past, None).encode())


def write_owner_report(
    place: Path, release_dir: Path, verdict: Verdict, utility_dir: Path, words: MethodWords, owner: OwnerFacts
) -> None:
    """Write the owner's edition into `place`: with what failed before, remedies, settings and the real ratings."""
    page = _page(release_dir, verdict, utility_dir, words, owner.past, owner)
    write_bytes(place / FILE, page.encode())


def _page(
    release_dir: Path,
    verdict: Verdict,
    utility_dir: Path,
    words: MethodWords,
    past: Past | None,
    owner: OwnerFacts | None,
) -> str:
    if (
        owner is None
    ):  # further attempts are the owner's affair; the level of the intervals says how wide they are
        verdict = replace(verdict, checks=[replace(check, attempts=1) for check in verdict.checks])
    described = rows(verdict.checks)
    failed = failures(described)
    attacks = [row for row in described if row.attack]
    release = _release(release_dir, utility_dir, described, owner=owner is not None)
    return render_html(
        "report.html.j2",
        verdict=verdict,
        owner=owner,
        past=past,
        about=words.about,
        sentence=sentence(verdict, described, release["manifest"], words),
        failures=failed,
        explained=EXPLAINED,
        opened={one.name for one in failed[:EXPLAINED]},
        advice=advice(verdict, described, owner),
        attacks=by_share_of_limit([row for row in attacks if row.result.applicable]),
        rules=by_share_of_limit([row for row in described if not row.attack and row.result.applicable]),
        apart=[row for row in described if not row.result.applicable],
        settings=facts.settings(release["manifest"], verdict, owner),
        **release,
    )


def _release(release_dir: Path, utility_dir: Path, described: list[Row], *, owner: bool) -> dict[str, Any]:
    """Return what the page shows of the release's files; one that cannot be read has a `problem` instead."""
    try:
        release = Release(release_dir)
    except Refused as problem:
        nothing: dict[str, Any] = dict.fromkeys(
            ("manifest", "sizes", "ratings", "coverage", "coverage_words", "ranking")
        )
        utility = _utility(utility_dir, single=False)
        title = "Unreadable release"
        return nothing | {
            "title": title,
            "problem": problem.what,
            "facts": {},
            "digests": {},
            "utility": utility,
            "disclosure": [],
            "cards": [],
        }
    manifest, single = release.manifest, rules_of(release.manifest["method"]).publishes_persons
    utility, ranked = _utility(utility_dir, single=single), ranking(utility_dir, single=single)
    chart, coverage_words = figures.coverage(release)
    links = next((row.result for row in described if row.name == "link-existence"), None)
    return {
        "title": f"{manifest['release']}, {manifest['snapshot']}",
        "problem": None,
        "manifest": manifest,
        "facts": facts.of_release(manifest, single=single),
        "digests": {name: manifest["files"][name] for name in facts.DATA_FILES if name in manifest["files"]},
        "cards": cards(described, manifest, utility, ranked),
        "sizes": figures.group_sizes(release, single=single) if release.listed.sum() else None,
        "ratings": figures.published_ratings(release, utility_dir, owner=owner),
        "coverage": chart,
        "coverage_words": coverage_words,
        "disclosure": figures.disclosure(links),
        "utility": utility,
        "ranking": ranked,
    }


def _utility(utility_dir: Path, *, single: bool) -> dict[str, Any]:
    own, by_chance = ("own record", "another person") if single else ("own group", "random groups")
    try:
        measured = summary(utility_dir)
    except Refused as problem:
        return {"problem": problem.what}
    return {
        "problem": None,
        "figures": measured,
        "lines": figures.heldout_errors(measured, own=own, by_chance=by_chance),
        "facts": facts.of_utility(measured, utility_dir, own=own),
    }
