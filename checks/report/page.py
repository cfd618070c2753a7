"""report.html: the verdict, every check, and what the release is good for, on one self-contained page."""

import html
import math
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numba import njit

from checks.privacy.k_anonymity import SINGLE_METHODS
from checks.release import Release
from checks.report import plots
from checks.result import CheckResult, Verdict
from checks.utility.utility import summary
from tasks.errors import Refused
from tasks.store import read_json, write_bytes

GROUPED = (
    "Every person belongs to a group of similar people. All members of a group are published with the same "
    "profile: "
)
METHODS = {
    "predictive-padded": f"{GROUPED}a rating of every item, predicted by a model, averaged over the group.",
    "predictive-simple": f"{GROUPED}the items somebody in the group rated, with one rating for all of them.",
    "predictive-boosted": f"{GROUPED}the items somebody in the group rated and further ones that a model "
    "predicts with confidence.",
    "microaggregation": f"{GROUPED}the mean of their records, in which missing ratings were filled in.",
    "perturbation": "Every person is published under a pseudonym with a record of their own, every value of which is "
    "disguised with random noise.",
    "suppression": "Every person is published under a pseudonym with what they rated, less the items few people rated.",
    "obfuscation": "Every person is published under a pseudonym with what they rated and with made-up ratings.",
}
SPREADS = 4  # standard deviations that the picture of z-scores shows
OTHER_METHOD = "People are published under pseudonyms with ratings changed by the method named below."


def write_report(release_dir: Path, verdict: Verdict, utility_dir: Path, changed: str = "") -> None:
    """Write report.html into the release's directory; the same inputs give the same bytes. `changed`: what was done to
    the ratings first, in words."""
    here = files("checks.report")
    page = Template((here / "page.html").read_text("utf-8")).substitute(
        style=(here / "style.css").read_text("utf-8"),
        **_head(release_dir, verdict, changed),
        checks="\n".join(_check(check) for check in verdict.checks),
        utility=_utility(utility_dir, _single(release_dir)),
        plots=_plots(release_dir, utility_dir),
    )
    write_bytes(release_dir / "report.html", page.encode())


def _head(release_dir: Path, verdict: Verdict, changed: str) -> dict[str, str]:
    try:
        manifest = Release(release_dir).manifest
    except Refused as problem:
        manifest = {}
        about, facts = f"The files cannot be read as a release: {html.escape(problem.what)}.", ""
    else:
        about, facts = METHODS.get(manifest["method"], OTHER_METHOD), _facts(manifest)
        about = f"{about} {html.escape(changed)}".strip()
    warned = [check.name for check in verdict.checks if check.severity == "advisory" and not check.passed]
    words = f"All {len(verdict.checks) - len(warned)} checks that decide have passed."
    if not verdict.passed:
        words = (
            f"Failed: {', '.join(verdict.failed) or 'no check was run'}. This release must not be published."
        )
    if warned:
        words += f" To be borne in mind: {', '.join(warned)}."
    name, snapshot = manifest.get("release", "unreadable"), manifest.get("snapshot", "")
    return {
        "title": html.escape(f"Release {name}, {snapshot}"),
        "verdict": "Passed" if verdict.passed else "Refused",
        "verdict_class": "passed" if verdict.passed else "failed",
        "verdict_words": html.escape(words),
        "about": about,
        "facts": facts,
    }


def _facts(manifest: dict[str, Any]) -> str:
    privacy, counts = manifest["privacy"], manifest["counts"]
    withheld = manifest["withheld"]
    records = "Records" if manifest["method"] in SINGLE_METHODS else "Groups"
    rows = {
        "Method": manifest["method"],
        "People": f"{counts.get('users', 0):,}",
        "Items": f"{counts.get('items', 0):,}",
        records: f"{counts.get('groups', 0):,}",
        **_promised(manifest),
        f"{records} per item (l)": f"at least {privacy['l']:,}",
        "Items an attacker may know (b)": f"{privacy['b']:,}",
        "Scale and step": _scale(manifest),
        "Withheld": f"{withheld.get('users', 0)} people, {withheld.get('items', 0)} items",
        "Earlier releases of the same people": str(manifest["series"]),
    }
    return _terms(rows)


def _promised(manifest: dict[str, Any]) -> dict[str, str]:
    """What k and min_contributors promise: to groups; single people are promised not to be found."""
    k, contributors = manifest["privacy"]["k"], manifest["privacy"]["min_contributors"]
    if manifest["method"] in SINGLE_METHODS:
        return {"Chance of finding a person's record (k)": f"at most 1 in {k:,}, on average over people"}
    return {
        "People who share a profile (k)": f"at least {k:,}",
        "Real ratings behind a cell": f"at least {contributors:,}, or none",
    }


def _scale(manifest: dict[str, Any]) -> str:
    low, high = manifest["rating_scale"]
    if manifest["unit"] == "z-score":
        return f"z-scores of ratings from {low:g} to {high:g}"
    return f"{low:g} to {high:g}" + (f" by {manifest['rating_step']:g}" if manifest["rating_step"] else "")


def _terms(rows: dict[str, str]) -> str:
    return "".join(f"<div><dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd></div>" for k, v in rows.items())


def _check(check: CheckResult) -> str:
    kind = "passed" if check.passed else ("failed" if check.severity == "gate" else "advisory")
    word = {"passed": "passed", "failed": "FAILED", "advisory": "not met (advisory)"}[kind]
    numbers = {"Observed": _show(check.observed), "Threshold": _show(check.threshold)}
    if check.ci_low is not None or check.ci_high is not None:
        numbers["95 % interval"] = f"{_show(check.ci_low)} to {_show(check.ci_high)}"
    numbers |= {"Trials": f"{check.n:,}", "Weight": "decides" if check.severity == "gate" else "advisory"}
    return (
        f'<article><h3>{html.escape(check.name)}: <span class="{kind}">{word}</span></h3>'
        f"<dl>{_terms(numbers)}</dl><p>{html.escape(check.detail)}</p>{_outcomes(check)}</article>"
    )


def _outcomes(check: CheckResult) -> str:
    """What an attack achieved, by what its attacker knows."""
    if not check.outcomes:
        return ""
    columns = ("Known", "Trials", "Success", "at most", "baseline", "right record first")
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    rows = "".join(
        f'<tr><th scope="row">{html.escape(outcome.knowledge)}</th>'
        + "".join(
            f"<td>{cell}</td>"
            for cell in (
                f"{outcome.risk.n:,}",
                f"{outcome.risk.rate:.1%}",
                f"{outcome.risk.interval[1]:.1%}",
                "" if math.isnan(outcome.risk.baseline) else f"{outcome.risk.baseline:.1%}",
                f"{outcome.group_top[1]:.1%}" if 1 in outcome.group_top else "",
            )
        )
        + "</tr>"
        for outcome in check.outcomes
    )
    said = f"By what is known ({len(check.outcomes)} trials)"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<details><summary>{said}</summary><div class="wide">{table}</div></details>'


def _show(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _single(release_dir: Path) -> bool:
    try:
        return Release(release_dir).manifest["method"] in SINGLE_METHODS
    except Refused:
        return False


def _utility(utility_dir: Path, single: bool) -> str:
    own, by_chance = ("own record", "somebody else") if single else ("own group", "random groups")
    try:
        figures = summary(utility_dir)
    except Refused as problem:
        return f"<p>{html.escape(problem.what)}.</p>"
    errors = {
        "model, not released": figures["original_rmse"],
        own: figures["target_deviation_rmse"],
        "nearest profile": figures["similar_user_rmse"],
        by_chance: figures["random_group_rmse"],
        "item means": figures["item_mean_rmse"],
    }
    plot = plots.bars(
        list(errors),
        list(errors.values()),
        title="Error on held-out ratings",
        x="RMSE, smaller is better",
        name="utility",
    )
    terms = _terms(
        _shadow_run(utility_dir)
        | {
            "Held-out ratings": f"{figures['heldout']:,}",
            "Not published (null)": f"{figures['null_share']:.1%}",
            f"{own.capitalize()} is the nearest": f"{figures['self_rank_1_share']:.1%}",
        }
    )
    return (
        f"<figure>{plot}<figcaption>From a shadow run of the same steps on the ratings that "
        f"were not held out. A release "
        f"is useful where “{own}” is near the model and well below "
        f"“{by_chance}”.</figcaption></figure><dl>{terms}</dl>"
    )


def _shadow_run(utility_dir: Path) -> dict[str, str]:
    """Whom the shadow run was made of: everybody, all but a few, or a sample (which its own summary says)."""
    path = utility_dir / "summary.json"
    known = read_json(path) if path.exists() else {}
    if not {"users", "source_users", "sampled", "ranked_users"} <= set(known):
        return {}
    users, everybody = known["users"], known["source_users"]
    if known["sampled"]:
        which = "a seeded sample"
    else:
        which = "all" if users == everybody else f"all but {everybody - users:,} left out on purpose"
    said = f"{users:,} of {everybody:,} people ({which}), {known['ranked_users']:,} of them ranked"
    return {"Shadow run": said}


def _plots(release_dir: Path, utility_dir: Path) -> str:
    try:
        release = Release(release_dir)
    except Refused:
        return "<p>The files cannot be read.</p>"
    counts = np.bincount(release.listed, minlength=1)
    first = int(np.flatnonzero(counts).min(initial=len(counts) - 1))
    edges, heights = np.arange(first, len(counts) + 1) - 0.5, counts[first:]
    groups = plots.histogram(
        edges, {"groups": heights}, title="People per group", x="people", y="groups", name="groups"
    )
    said = "everybody in a group has the same published profile."
    if release.manifest["method"] in SINGLE_METHODS:
        said = "every one is a single person's record."
    figures = [(groups, f"{release.n_groups:,} groups; {said}")]
    figures.append(_ratings(release, utility_dir))
    return "".join(
        f"<figure>{svg}<figcaption>{html.escape(said)}</figcaption></figure>" for svg, said in figures
    )


def _ratings(release: Release, utility_dir: Path) -> tuple[str, str]:
    """Published ratings, beside the real and the padded ones of the shadow run (the paper's table 2)."""
    if release.unit == "z-score":
        return _z_scores(release)
    path = utility_dir / "summary.json"
    known = read_json(path).get("histogram", {}) if path.exists() else {}
    edges = np.array(known.get("edges") or np.linspace(release.low, release.high, 11), dtype=np.float64)
    counts = np.zeros(len(edges) - 1)
    for value, people in _values(release):
        counts += np.histogram(np.clip(value, edges[0], edges[-1]), edges, weights=people)[0]
    series = {"published": counts / max(counts.sum(), 1)}
    said = "Published ratings, each counted once per person."
    if known.get("observed_share"):
        observed = np.array(known["observed_share"], dtype=np.float64)
        series["real"] = observed / max(observed.sum(), 1e-12)
        said += f" Real ratings are the {1 - known.get('null_share', 0):.2%} of all cells that people filled."
    if known.get("padded_share"):
        series["padded"] = np.array(known["padded_share"], dtype=np.float64)
    return plots.histogram(edges, series, title="Ratings", x="rating", y="share", name="ratings"), said


def _z_scores(release: Release) -> tuple[str, str]:
    """Published z-scores; they have no scale to stand beside real ratings on."""
    squares = sum(float((values.astype(np.float64) ** 2).sum()) for values, _ in _values(release))
    widest = SPREADS * math.sqrt(squares / max(1, release.cells)) or 1.0
    edges = np.linspace(-widest, widest, 25)
    counts = np.zeros(len(edges) - 1)
    for value, people in _values(release):
        counts += np.histogram(np.clip(value, edges[0], edges[-1]), edges, weights=people)[0]
    series = {"published": counts / max(counts.sum(), 1)}
    said = "Published z-scores, noise included; what is further out is counted at the ends."
    return plots.histogram(edges, series, title="z-scores", x="z-score", y="share", name="ratings"), said


def _values(release: Release) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Published ratings and the people they are published for; where they are codes, each code once a block."""
    for block in release.blocks():
        people = release.listed[block.rows_slice]
        if block.codes.dtype == np.float32:
            yield block.values, np.repeat(people, np.diff(block.indptr))
            continue
        count = np.zeros(np.iinfo(block.codes.dtype).max + 1, dtype=np.int64)
        _count_codes(block.codes, block.indptr, people, count)
        codes = np.flatnonzero(count)
        yield replace(block, codes=codes.astype(block.codes.dtype)).values, count[codes]


@njit(cache=True, nogil=True)
def _count_codes(codes, indptr, people, count):  # type: ignore[no-untyped-def]
    for row in range(len(people)):
        for code in codes[indptr[row] : indptr[row + 1]]:
            count[code] += people[row]
