"""Say in at most ten lines how a command ended: verdict, the figures that matter, what to do next, where details are.

`--verbose` prints every figure before these lines, so the verdict is always the last thing on the screen.
"""

import re
import textwrap
from pathlib import Path
from typing import Any

from rich.markup import escape

from tasks.cli._words import counted, duration, number, percent, size
from tasks.config.gate import AT_LEAST

WIDTH = 80
LINES = 10
FAILED_SHOWN = 3
LEFT = 9  # columns before the text of a line
ALL_OF_THEM = "every check and figure: the same command with --verbose, or --json"
USUAL_KNOWLEDGE = ("4 random, exact", "8 random, exact")
NUMBERS = {"2": "Two", "4": "Four", "8": "Eight", "16": "Sixteen"}


def end_of_run(answer: dict[str, Any], title: str, naming: set[str], remedy: str = "") -> list[str]:
    """Return the end of `murmur run`. `naming` are the checks that try to name people, with the limit 1/k."""
    if answer.get("already_published"):
        lines = [_verdict(f"{title} is published already; nothing was done.", "green")]
        if answer.get("refused_cohort"):
            lines += _wrapped("note", answer["refused_cohort"]["why"], most=2)
        return [
            *lines,
            _line("release", _shown(answer["published"])),
            _line("report", _shown(answer["report"])),
        ]
    checks = answer["checks"]
    if answer["status"] == "refused" and answer["candidate"] is None:
        lines = [_verdict(f"Refused: {title} is not published.", "red"), *_failed(checks, answer["why"])]
        lines += _wrapped("to do", remedy, most=3)
        if answer["report"]:
            lines.append(_line("report", _shown(answer["report"])))
        return [*lines, _line("details", ALL_OF_THEM)]
    if answer["candidate"]:
        lines = [_verdict(f"The gate passed {title}; it waits for approval.", "yellow")]
    else:
        lines = [_verdict(f"Published {title}.", "green")]
    lines += [_passed(checks), *_naming(checks, naming), *_accuracy(answer["utility"])]
    if answer["refused_cohort"]:
        lines += _wrapped("note", answer["refused_cohort"]["why"], most=2)
    lines.append(
        _line("cost", f"{duration(_total(answer['seconds']))} of CPU time, {size(answer['peak_rss_bytes'])}")
    )
    if answer["candidate"]:
        return [*lines, _line("next", f"murmur approve {_shown(answer['candidate'])}"), _details(answer)]
    place = _shown(answer["published"])
    lines += [_line("next", f"murmur open {place}"), _line("", f"murmur expand {place} --to csv OUT.csv")]
    return [*lines, _details(answer)]


def end_of_check(seen: dict[str, Any], config: str, snapshot: str) -> list[str]:
    """Return the end of `murmur check`: whether a run can begin, what to note first, and what a run would cost."""
    source, estimate, notes = seen["source"], seen["estimate"], seen["notes"]
    title = f"{config} is valid" + (f", with {counted(len(notes), 'thing')} to note." if notes else ".")
    lines = [_verdict(title, "yellow" if notes else "green")]
    read = "" if source["whole"] else f" in the first {source['rows_read']:,} rows"
    people, items = counted(source["users_read"], "person"), counted(source["items_read"], "item")
    people = people.replace("persons", "people")
    lines.append(_line("source", f"{counted(source['ratings'], 'rating')} of {items} by {people}{read}"))
    for note in notes[:2]:
        lines += _wrapped("note", note, most=3 if len(notes) == 1 else 2)
    least = "" if source["whole"] else "at least "
    time, room = duration(estimate["cpu_seconds"]), size(estimate["memory_bytes"])
    lines.append(_line("cost", f"{least}about {time} of CPU time and {room} of memory"))
    lines.append(_line("next", f"murmur run {config} --snapshot {snapshot}"))
    return [*lines, _line("details", "first rows, promises, steps: add --verbose, or --json")]


def end_of_judgement(answer: dict[str, Any], what: str, naming: set[str]) -> list[str]:
    """Return the end of `murmur verify` and `murmur audit`."""
    checks = answer["checks"]
    if answer["status"] == "refused":
        lines = [_verdict(f"Refused: {what}.", "red"), *_failed(checks, None)]
        words = "take it back: murmur withdraw CONFIG --snapshot DATE --reason TEXT"
        return [*lines, _line("to do", words), _line("details", ALL_OF_THEM)]
    lines = [_verdict(f"Passed: {what}.", "green"), _passed(checks)]
    return [*lines, *_naming(checks, naming), _line("details", ALL_OF_THEM)]


def end_of_attack(answer: dict[str, Any], k: int | None) -> list[str]:
    """Return the end of `murmur attack`; `k` is that of the release, None for raw data."""
    name, results = answer["attack"], answer["results"]
    if answer["void"] or not results:
        lines = [_verdict(f"{name}: the figures show nothing.", "yellow")]
        return [*lines, *_wrapped("why", answer["detail"], most=5), _line("details", ALL_OF_THEM)]
    data = "in these data" if k is None else "in this release"
    ranked = [one for one in results if one["top"].get("1") is not None]
    if ranked:
        usual = next((one for known in USUAL_KNOWLEDGE for one in ranked if one["knowledge"] == known), None)
        worst = max(ranked, key=lambda one: (one["risk"], one["ci_high"]))
        first = usual or worst
        lines = [_verdict(f"{_subject(first)} {percent(first['risk'])} of the people {data}.", "")]
        if worst is not first:
            known = _in_words(worst["knowledge"])
            lines += _wrapped("at worst", f"{percent(worst['risk'])}, for who knows {known}", most=2)
    else:
        lines = [_verdict(f"{name}:", ""), *_wrapped("found", _first_sentence(answer["detail"]), most=4)]
    if k is None:
        lines.append(_line("next", "murmur init NAME writes a release file that protects against this"))
    elif ranked:
        lines.append(_line("allowed", f"{percent(1 / k)}, which is one in k = {k}"))
    return [*lines, _line("details", f"all kinds of knowledge ({len(results)}): add --verbose, or --json")]


def _subject(outcome: dict[str, Any]) -> str:
    found = re.fullmatch(r"(\d+) random, exact", outcome["knowledge"])
    if found:
        return f"{NUMBERS.get(found[1], found[1])} known ratings identify"
    return f"Who knows {_in_words(outcome['knowledge'])} identifies"


def _in_words(knowledge: str) -> str:
    """Return a kind of knowledge as a person says it; one of another form as it is."""
    found = re.fullmatch(r"(\d+) (random|rare|popular), (exact|±1|some wrong)(, days)?", knowledge)
    if not found:
        return knowledge
    of = {"random": "", "rare": " of rare items", "popular": " of popular items"}[found[2]]
    error = {"exact": "", "±1": ", each off by up to one", "some wrong": ", a quarter of them wrong"}[
        found[3]
    ]
    return f"{found[1]} ratings{of}{error}{' and their days' if found[4] else ''}"


def _first_sentence(detail: str) -> str:
    return re.split(r"(?<=[a-z\d%)])\. (?=[A-Z])", detail, maxsplit=1)[0].rstrip(".") + "."


def _passed(checks: list[dict[str, Any]]) -> str:
    """Return how many checks that could have failed have passed, and the warnings."""
    gating = [one for one in checks if one["severity"] == "gate" and one["applicable"]]
    warned = [one["name"] for one in checks if one["severity"] == "advisory" and not one["passed"]]
    also = f"; {counted(len(warned), 'warning')}: {', '.join(warned)}" if warned else ""
    return _line("checks", f"{counted(len(gating), 'check')} passed{also}")


def _naming(checks: list[dict[str, Any]], naming: set[str]) -> list[str]:
    """Return the highest upper bound of the attacks that name people, and the limit."""
    held = [one for one in checks if one["name"] in naming and one["ci_high"] is not None]
    if not held:
        return []
    worst = max(held, key=lambda one: one["ci_high"])
    bound, limit = percent(worst["ci_high"]), percent(worst["threshold"])
    words = f"attacks name at most {bound} of people ({worst['name']}; allowed {limit})"
    return [_line("risk", words)]


def _accuracy(utility: dict[str, Any]) -> list[str]:
    """Return what the release loses, between the model that is never released and random groups."""
    own, model = utility.get("target_deviation_rmse"), utility.get("original_rmse")
    if own is None or model is None:
        return []
    at_random = utility.get("random_group_rmse")
    others = f"{model:.3f} without groups" + (f", {at_random:.3f} in random ones" if at_random else "")
    return [_line("accuracy", f"predictions off by {own:.3f} ({others})")]


def _failed(checks: list[dict[str, Any]], why: str | None) -> list[str]:
    failed = [one for one in checks if not one["passed"] and one["severity"] == "gate"]
    if not failed:
        return _wrapped("why", why or "no check that was run could have failed", most=4)
    lines = [
        _line("failed" if not number else "", _figure(one))
        for number, one in enumerate(failed[:FAILED_SHOWN])
    ]
    more = len(failed) - FAILED_SHOWN
    return [*lines, _line("", f"and {counted(more, 'further check')}")] if more > 0 else lines


def _figure(check: dict[str, Any]) -> str:
    """Return what a failed check observed and what is allowed, as shares or as numbers."""
    name, seen, limit = check["name"], check["observed"], check["threshold"]
    if check.get("void") or seen is None or limit is None:
        return f"{name}: {_first_sentence(check['detail'])[: WIDTH - LEFT - len(name) - 2]}"
    if name in AT_LEAST:
        return f"{name}: {number(seen)}, at least {number(limit)} needed"
    up_to = "" if check["ci_high"] is None else f" (up to {percent(check['ci_high'])})"
    return f"{name}: {percent(seen)}{up_to}, allowed {percent(limit)}"


def _total(seconds: dict[str, float]) -> float:
    """Return the CPU time of the steps; the runs inside `evaluate` are part of it."""
    return sum(value for step, value in seconds.items() if not step.startswith(("shadow", "sybil ")))


def _details(answer: dict[str, Any]) -> str:
    return _line("details", f"{_shown(answer['report'])}; or --verbose")


def _shown(path: str) -> str:
    """Return a path relative to the working directory, where it is below it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def _verdict(words: str, colour: str) -> str:
    return f"[bold {colour}]{escape(words)}[/]" if colour else f"[bold]{escape(words)}[/]"


def _line(title: str, words: str) -> str:
    return f"  {title:<{LEFT}}" + escape(words)


def _wrapped(title: str, words: str, most: int) -> list[str]:
    """Return words in at most so many lines; what does not fit is left out, and the end says so."""
    lines = textwrap.wrap(words, WIDTH - LEFT - 2, max_lines=most, placeholder=" …", break_on_hyphens=False)
    return [_line(title if not number else "", line) for number, line in enumerate(lines)]
