"""Say in words what a search for settings has found; the terminal and the page say the same."""

from typing import Any


def verdict(answer: dict[str, Any]) -> str:
    """Return one sentence: the cheapest setting that passes, or that none does."""
    cheapest = answer["cheapest"]
    if cheapest is None:
        own = (
            f" (its own setting fails {', '.join(answer['own']['failed'])})"
            if answer["own"]["failed"]
            else ""
        )
        return f"No setting that was tried passes{own}."
    lost = f"it loses {cheapest['lost']:.4f} RMSE against the model without groups"
    if answer["own_is_cheapest"]:
        return f"The release file's own setting is the cheapest that passes: {lost}."
    said = ", ".join(f"{key} = {value}" for key, value in cheapest["values"].items())
    own = answer["own"]
    if not own["passed"]:
        return f"Cheapest that passes: {said}; {lost}. The release file's own setting is refused."
    return f"Cheapest that passes: {said}; {lost}, the release file's own setting {own['lost']:.4f}."


def scope(answer: dict[str, Any]) -> str:
    """Say how much was tried, what was concluded without a trial, and what is open."""
    tried, size, open_ = len(answer["trials"]), answer["settings"], answer["undecided"]
    skipped = size - tried - open_
    said = f"{tried} of {size} settings were tried"
    if skipped > 0:
        said += f"; {skipped} follow from them: weaker than a refused one, or stronger than one that passed"
    if open_:
        said += f"; {open_} are open"
    if answer["stopped"]:
        said += f": {answer['stopped']}"
    if answer["k_is_fixed"]:
        said += "; k is that of the first release of this population and cannot change"
    return f"{said}."


def outcome(trial: dict[str, Any]) -> str:
    """Return the verdict on a trial."""
    if trial["passed"]:
        return "passed" + (", on the frontier" if trial["on_frontier"] else "")
    return f"refused: {', '.join(trial['failed']) or trial['why']}"


SYNTHETIC = "dp-synthetic"
CHOOSE_ELSEWHERE = (
    "The figures of dp-synthetic were measured on these data: a choice of epsilon or of other settings by them is not "
    "covered by epsilon. Choose on other data, such as public ones."
)


def other_ways(answer: dict[str, Any]) -> str | None:
    """Say which other ways to release pass; None where none was tried. What they promise differs, so none is chosen."""
    tried, left_out = answer["others"], answer["others_left_out"]
    if not tried and not left_out:
        return None
    passed = [one["entry"] for one in tried if one["passed"]]
    said = f"Other ways to release, tried once each: {', '.join(passed) if passed else 'none'} passed"
    if left_out:
        said += f"; no time for {', '.join(left_out)}"
    said += ". What they promise differs, so the choice is yours; see docs/methods.md and docs/dp.md."
    if any(one["entry"].startswith(SYNTHETIC) for one in tried):
        said += f" {CHOOSE_ELSEWHERE}"
    return said


def lists(trial: dict[str, Any]) -> str:
    """Return nDCG@10 with own history, with the group's, and by popularity."""
    names = ("own_ndcg", "group_ndcg", "popularity_ndcg")
    return " / ".join("–" if trial[name] is None else f"{trial[name]:.3f}" for name in names)
