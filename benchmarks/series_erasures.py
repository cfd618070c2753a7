"""Erase fifty people at seeded moments of twelve monthly releases: what is withdrawn, who waits, what is left.

    python -m benchmarks.series_erasures [--users 1400] [--erasures 50] [--json benchmarks/results/series-erasures.json]

The synthetic source; releases are made with the checks that judge a release with all earlier ones (the attacks on a
cohort do not depend on erasures), erasures by `murmur erase --apply`, one person at a time. The source goes on listing
who was erased, as a source of yesterday's backup would. Who was behind every group is noted at publication, before ids
are removed. From these notes alone, sharing no code with pipeline and gate, the smallest number of people whom a
combination of published groups (coefficients −1, 0, 1) leaves is computed; it must be k or more. In the end
benchmarks/find_ids.py decodes every file of the store: no erased id may be left, while each was found before.
"""

import argparse
import contextlib
import io
import itertools
import json
import sys
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import series
from benchmarks.find_ids import IdFinder
from benchmarks.series_runs import light_gate, members, present, publish
from tasks.cli._main import main as murmur
from tasks.config import load

NAME, MONTHS, ERASURES, SEED = "monthly", 12, 50, 15
MOST_SETS = 14  # 3^14 combinations: five million
AT_ONCE = 3**9

Group = frozenset[str]


def clusters(groups: Collection[Group]) -> list[list[Group]]:
    """Return the groups in sets that share people, directly or through others."""
    found: dict[str, list[Group]] = {}
    for group in sorted(groups, key=sorted):
        merged: dict[int, list[Group]] = {}
        for person in group:
            if person in found:
                merged[id(found[person])] = found[person]
        own = [group, *itertools.chain.from_iterable(merged.values())]
        for other in own:
            for person in other:
                found[person] = own
    return list({id(own): own for own in found.values()}.values())


def smallest_support(groups: Collection[Group]) -> int:
    """Return the fewest people with a non-zero coefficient in a combination of the groups that leaves anybody."""
    people = sorted(set().union(*groups))
    table = np.array([[person in group for person in people] for group in groups], np.int8)
    columns, counts = np.unique(table, axis=1, return_counts=True)
    if len(table) > MOST_SETS:
        raise ValueError(f"{len(table)} groups are too many to try all combinations")
    fewest = len(people)
    signs = itertools.product((-1, 0, 1), repeat=len(table))
    while part := list(itertools.islice(signs, AT_ONCE)):
        left = ((np.array(part, np.int8) @ columns) != 0) @ counts
        fewest = min(fewest, int(left[left > 0].min(initial=fewest)))
    return fewest


def judge(groups: Collection[Group]) -> dict[str, int]:
    """Return the figures of the independent script: groups, clusters with several, the fewest people isolated."""
    found = clusters(groups)
    several = [own for own in found if len(own) > 1]
    return {
        "groups": len(groups),
        "pools": len(several),
        "smallest_group": min(map(len, groups)),
        "fewest_people_in_a_combination": min(smallest_support(own) for own in found),
    }


def draw_moments(erasures: int, months: int, rng: np.random.Generator) -> list[int]:
    """Return after which snapshot each erasure happens; the last is left to show what follows."""
    return sorted(rng.integers(0, months - 1, erasures).tolist())


def waits(
    withdrawn: dict[str, int], returned: dict[str, int], source: list[set[str]], last: int
) -> dict[str, Any]:
    """Return how long survivors waited, in releases, and what became of those who were not pooled."""
    waited = [returned[one] - month for one, month in withdrawn.items() if one in returned]
    rest = [one for one in withdrawn if one not in returned]
    gone = sum(one not in source[last] for one in rest)
    return {
        "survivors": len(withdrawn),
        "pooled": len(waited),
        "releases_waited_mean": round(float(np.mean(waited)), 2) if waited else None,
        "releases_waited_median": float(np.median(waited)) if waited else None,
        "releases_waited_most": max(waited, default=None),
        "left_the_source": gone,
        "still_waiting": len(rest) - gone,
    }


class Store:
    """Hold a store and what was noted of its releases."""

    def __init__(self, place: Path, options: argparse.Namespace) -> None:
        self.file = series.write_config(place, None, options)
        with self.file.open("a") as file:  # the last table is [series]; pools are off by default
            file.write("pool_survivors = true\n")
        self.config, self.root = load(self.file), place / "store"
        self.groups: set[Group] = set()
        self.seen: set[str] = set()

    def note(self) -> None:
        """Note the members of the groups of every release that is new since the last time."""
        for file in sorted(self.root.glob(f"private/{NAME}/*/membership.parquet")):
            if file.parent.name not in self.seen:
                self.seen.add(file.parent.name)
                self.groups |= groups_of(members(self.root, NAME, file.parent.name))

    def erase(self, person: str) -> dict[str, Any]:
        """Erase a person by the command and return its answer."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = murmur(
                ["erase", str(self.file), "--user", person, "--apply", "--store", str(self.root), "--json"]
            )
        answer = json.loads(out.getvalue())
        if code:
            raise RuntimeError(f"erasure ended with {code}: {answer}")
        for release in answer["withdrawn"]:
            if not release["repaired"]:
                raise RuntimeError(f"not repaired: {release}")
        return answer

    def newest(self, day: str) -> str:
        """Return the directory of a snapshot's newest revision that is offered."""
        offered = [file.parent.name for file in self.root.glob(f"published/{NAME}/{day}*/manifest.json")]
        return max(offered, key=lambda name: int(name.partition("-r")[2] or 1))


def groups_of(group: dict[str, int]) -> set[Group]:
    """Return the sets of members of a release's groups."""
    found: dict[int, set[str]] = {}
    for person, number in group.items():
        found.setdefault(number, set()).add(person)
    return {frozenset(own) for own in found.values()}


def run(place: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Release twelve snapshots and erase people in between."""
    rng = np.random.default_rng(SEED)
    store, days = Store(place, options), series.snapshots(series.FIRST_MONTH[False], options.months)
    moments = draw_moments(options.erasures, options.months, rng)
    withdrawn: dict[str, int] = {}
    returned: dict[str, int] = {}
    erased: list[str] = []
    lines, source, canaries, releases_withdrawn, groups_withdrawn = [], [], 0, [], 0
    for month, day in enumerate(days):
        made = publish(store.config, day, store.root)
        store.note()
        source.append(present(store.config, day))
        released = members(store.root, NAME, str(day)) if made["status"] == "published" else {}
        returned |= {one: month for one in withdrawn if one in released and one not in returned}
        eligible = source[-1].difference(erased)
        line = {
            **made,
            "in_source_and_not_erased": len(eligible),
            "share_released": round(len(eligible & set(released)) / len(eligible), 4),
            "survivors_waiting": len(set(withdrawn) - set(returned) - set(erased)),
            "survivors_pooled_so_far": len(returned),
            "erasures_after_it": moments.count(month),
        }
        for _ in range(moments.count(month)):
            now = members(store.root, NAME, store.newest(str(day)))
            able = sorted(set(now) & source[-1])
            person = able[int(rng.integers(len(able)))]
            canaries += _found([person], [store.root / "private" / NAME / store.newest(str(day))])
            answer = store.erase(person)
            erased.append(person)
            own = {one for one in now if now[one] == now[person]} - {person}
            for one in own:
                withdrawn[one] = month
                returned.pop(one, None)
            withdrawn.pop(person, None)
            returned.pop(person, None)
            groups_withdrawn += answer["groups_withdrawn"]
            releases_withdrawn.append(len(answer["withdrawn"]))
            store.note()
        lines.append(line)
        print(json.dumps(line), file=sys.stderr, flush=True)
    left = sorted(IdFinder(erased).below(store.root))
    return {
        "erasures": len(erased),
        "groups_withdrawn": groups_withdrawn,
        "releases_withdrawn": sum(releases_withdrawn),
        "releases_withdrawn_per_erasure": round(float(np.mean(releases_withdrawn)), 2),
        **waits(withdrawn, returned, source, options.months - 1),
        "share_released_at_the_last": lines[-1]["share_released"],
        "independent_script": judge(store.groups),
        "canaries_found_before": canaries,
        "places_with_an_erased_id": len(left),
        "where": sorted({_kind(one, store.root) for one in left}),
        "snapshots": lines,
    }


def _found(ids: Iterable[str], places: Iterable[Path]) -> int:
    """Return 1 if one of the ids is found below the places."""
    finder = IdFinder(ids)
    return int(any(next(finder.below(place), None) is not None for place in places))


def _kind(found: str, root: Path) -> str:
    """Return a place without the snapshot: files of one kind are one line."""
    parts = Path(found.removeprefix(f"{root}/")).parts
    return "/".join("*" if part[:1].isdigit() else part for part in parts)


def main() -> int:
    """Print the figures; return 1 where fewer than k people are isolated or an erased id is left."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.series_erasures", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--users", type=int, default=1400)
    parser.add_argument("--months", type=int, default=MONTHS)
    parser.add_argument("--erasures", type=int, default=ERASURES)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args(namespace=argparse.Namespace(mode="sticky", method="predictive-padded"))
    with tempfile.TemporaryDirectory() as scratch, light_gate():
        figures = run(Path(scratch), options)
    answer = {
        "command": "python -m benchmarks.series_erasures",
        "gate": "checks of the series alone",
        "source": f"synthetic, {options.users} users, 400 items, churn 0.05, k={options.k}",
        **figures,
    }
    print(json.dumps({name: value for name, value in answer.items() if name != "snapshots"}, indent=1))
    if options.json:
        options.json.write_text(json.dumps(answer, indent=1) + "\n")
    safe = figures["independent_script"]["fewest_people_in_a_combination"] >= options.k
    return int(not safe or bool(figures["places_with_an_erased_id"]))


if __name__ == "__main__":
    sys.exit(main())
