"""Make a sticky series of MovieLens through the pipeline and attack it, for benchmarks/series_attacks.py.

Three snapshots with a random third of the people new in each. In the first, one rating of each person is not there yet.
People with fewer than MIN_RATINGS ratings are in the source of the second and third and wait. Between these two, people
of many groups are erased, so that their survivors are pooled in the third.
"""

import contextlib
import datetime
import io
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from benchmarks.difference_attacks import (
    Candidates,
    Published,
    found,
    hits,
    likelihoods,
    nearest_group,
    rate,
)
from benchmarks.series_runs import light_gate, members, publish
from tasks.cli._main import main as murmur
from tasks.config import load
from tasks.data.factors import open_model
from tasks.data.ratings import Ratings

NAME = "series"
DAYS = [datetime.date(2026, month, 1) for month in (1, 2, 3)]
MIN_RATINGS = 22
ERASED = 50

Figures = dict[str, Any]


@dataclass(frozen=True)
class World:
    """Hold all ratings (people × items, explicit entries) and the ids of people and items."""

    ratings: sp.csr_array
    people: list[str]
    items: list[str]

    @classmethod
    def read(cls, place: Path) -> "World":
        """Read MovieLens 100K or 1M."""
        file, mark = (
            (place / "ratings.dat", "::") if (place / "ratings.dat").exists() else (place / "u.data", "\t")
        )
        names = ["user", "item", "rating", "time"]
        table = pd.read_csv(file, sep=mark, engine="python", names=names)
        people, row = np.unique(table["user"], return_inverse=True)
        items, column = np.unique(table["item"], return_inverse=True)
        shape = (len(people), len(items))
        ratings = sp.csr_array((table["rating"].to_numpy(float), (row, column)), shape=shape)
        return cls(ratings, [f"p{one}" for one in people], [f"i{one}" for one in items])

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return person, item and rating of every entry."""
        matrix = self.ratings.tocoo()
        return matrix.row, matrix.col, matrix.data


class MadeSeries:
    """Hold a series in a store of its own, and who is in which release."""

    def __init__(self, world: World, place: Path, k: int, seed: int) -> None:
        self.world, self.place, self.k, self.rng = world, place, k, np.random.default_rng(seed)
        place.mkdir(parents=True)
        self.store = place / "store"
        self.column = {item: number for number, item in enumerate(world.items)}
        self.row = {person: number for number, person in enumerate(world.people)}
        rated = np.diff(world.ratings.indptr)
        self.waiting = np.flatnonzero(rated < MIN_RATINGS)
        self.cohorts = np.array_split(self.rng.permutation(np.flatnonzero(rated >= MIN_RATINGS)), len(DAYS))
        late = world.ratings.indptr[:-1] + self.rng.integers(0, rated)  # one rating of each person
        self.late = np.zeros(world.ratings.nnz, bool)
        self.late[late] = True
        self.erased: list[int] = []
        self.groups: dict[str, dict[int, int]] = {}
        self.known: dict[str, Candidates] = {}
        file = place / "release.toml"
        file.write_text(
            f'[release]\nname = "{NAME}"\nschedule = "@monthly"\nstart_date = {DAYS[0]}\n[source]\nformat = "csv"\n'
            f'path = "{place / "{snapshot}.csv"}"\nscale = [1.0, 5.0]\n[privacy]\nk = {k}\n'
            f"[series]\nmin_ratings = {MIN_RATINGS}\npool_survivors = true\n"
        )
        self.file, self.config = file, load(file)

    def make(self) -> Figures:
        """Publish the three snapshots; return the comparison of the second with a twin in which nobody waits."""
        first, second, third = self.cohorts
        self._write(DAYS[0], first, without_late=True)
        with light_gate():
            self._publish(DAYS[0], self.store)
            twin = self.place / "twin"
            shutil.copytree(self.store, twin)
            self._write(DAYS[1], np.concatenate([first, second]))
            self._publish(DAYS[1], twin)
            self._write(DAYS[1], np.concatenate([first, second, self.waiting]))
            self._publish(DAYS[1], self.store)
            compared = self._compare(DAYS[1], twin)
            self._erase()
            self._write(DAYS[2], np.concatenate([first, second, third, self.waiting]))
            self._publish(DAYS[2], self.store)
        return compared

    def attack(self) -> Figures:
        """Make the series and run every attack on it."""
        waiting = self.make()
        one, two, three = (self._whole(str(day)) for day in DAYS)
        repaired = self._read(f"{DAYS[0]}-r1")
        in_one, in_two, in_three = (self.groups[str(day)] for day in DAYS)
        carried = self._carried([(one, in_one, two, in_two), (two, in_two, three, in_three)])
        given, linked = self._pooled_averages(one, in_one, three, in_three)
        return {
            "erased person": self._erased_attack(self.known[str(DAYS[0])], one, in_one, repaired),
            "pooled survivors": self._pool_attack(self.known[str(DAYS[0])], one, in_one, three, in_three),
            "newcomer": self._newcomer_attack(self.known[str(DAYS[1])], one, two, in_two),
            "changed rating": {
                **carried,
                "note": "every member of a carried-over group has a new rating in the second snapshot",
            },
            "waiting person": waiting,
            "catalogue": self._catalogue(one, two, three),
            "averaging": self._several((one, in_one), (two, in_two), (three, in_three)),
            "averaging, pooled survivors": given,
            "averaging, pooled survivors, links by content": linked,
        }

    def _write(self, day: datetime.date, people: np.ndarray, *, without_late: bool = False) -> None:
        matrix = self.world.ratings
        owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        chosen = np.isin(owner, people) & ~(self.late & without_late)
        lines = (
            f"{self.world.people[person]},{self.world.items[item]},{rating:g}"
            for person, item, rating in zip(
                owner[chosen], matrix.indices[chosen], matrix.data[chosen], strict=True
            )
        )
        (self.place / f"{day}.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")

    def _publish(self, day: datetime.date, store: Path) -> None:
        made = publish(self.config, day, store)
        if made["status"] != "published":
            raise RuntimeError(f"{day} was refused: {made['why']}")
        if store == self.store:
            noted = members(store, NAME, str(day))
            self.groups[str(day)] = {self.row[person]: group for person, group in noted.items()}
            self.known[str(day)] = self._candidates(day)

    def _candidates(self, day: datetime.date) -> Candidates:
        """Return the people of a cohort with the predictions of its model, before the intermediate results go."""
        work = self.store / "private" / NAME / str(day) / "work"
        ratings, model = Ratings(work / "ingest"), open_model(work / "padding")
        people = np.array([self.row[person] for person in ratings.user_ids().to_pylist()])
        table = np.full((len(people), len(self.column)), np.nan)
        table[:, [self.column[item] for item in ratings.item_ids()]] = model.rows(slice(None))
        return Candidates(people, table)

    def _erase(self) -> None:
        """Erase one person of each of many groups of the first cohort."""
        group_of = self.groups[str(DAYS[0])]
        for group in self.rng.permutation(sorted(set(group_of.values())))[:ERASED].tolist():
            own = [person for person, number in group_of.items() if number == group]
            self.erased.append(int(self.rng.choice(own)))
        file = self.place / "leaving"
        file.write_text("\n".join(self.world.people[person] for person in self.erased) + "\n")
        arguments = ["erase", str(self.file), "--users-file", str(file), "--apply", "--json"]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = murmur([*arguments, "--store", str(self.store)])
        if code:
            raise RuntimeError(json.loads(out.getvalue()))

    def _read(self, directory: str) -> Published:
        return Published.read(self.store / "published" / NAME / directory, self.column)

    def _whole(self, directory: str) -> Published:
        """Read a release as it was first published: a withdrawn one stays with whoever copied it."""
        withdrawn = self.store / "private" / NAME / directory / "withdrawn"
        return (
            Published.read(withdrawn, self.column)
            if (withdrawn / "manifest.json").exists()
            else self._read(directory)
        )

    def _compare(self, day: datetime.date, twin: Path) -> Figures:
        """Compare a release with its twin, made by the same key without the people who wait."""
        places = [store / "published" / NAME / str(day) for store in (self.store, twin)]
        ours, other = (Published.read(place, self.column) for place in places)
        same = [a == b for a, b in zip(ours.digests, other.digests, strict=False)]
        lines = len(set(ours.items) ^ set(other.items))
        return {
            "differences": len(same) - sum(same) + abs(len(ours.digests) - len(other.digests)) + lines,
            "comparisons": len(same),
            "people_who_wait": len(self.waiting),
            "note": "groups and catalogue of the second snapshot, with and without the people who wait",
        }

    def _carried(self, pairs: list[tuple[Published, dict, Published, dict]]) -> Figures:
        """Compare the bytes of every group that two consecutive releases have."""
        different = compared = 0
        for before, in_before, after, in_after in pairs:
            rows, later = before.row_of(), after.row_of()
            same = {in_before[person]: in_after[person] for person in in_before if person in in_after}
            for group, number in same.items():
                whole = {p for p, g in in_before.items() if g == group} == {
                    p for p, g in in_after.items() if g == number
                }
                if whole:
                    compared += 1
                    different += before.digests[rows[group]] != after.digests[later[number]]
        return {"differences": different, "comparisons": compared}

    def _erased_attack(self, known: Candidates, one: Published, in_one: dict, repaired: Published) -> Figures:
        rows = one.row_of()
        own = [rows[in_one[person]] for person in self.erased]
        near = [nearest_group(one.table[row], repaired) for row in own]
        size = one.sizes[own][:, None]
        difference = size * one.table[own] - (size - 1) * repaired.table[near]
        shared = sum(one.digests[row] in set(repaired.digests) for row in own)
        return {
            **self._gain(known, one.table[own], difference, np.array(self.erased)),
            "groups_left_behind": shared,
            "note": "the group is gone from the repaired release; the nearest group by content is subtracted",
        }

    def _gain(
        self, known: Candidates, profiles: np.ndarray, further: np.ndarray, targets: np.ndarray
    ) -> Figures:
        """Look for the targets by their profile alone (baseline) and by a further vector together with it (after)."""
        alone = likelihoods(known, profiles, targets)
        both = alone + likelihoods(known, further, targets)
        return {"after": rate(*hits(known, both, targets)), "baseline": rate(*hits(known, alone, targets))}

    def _pool_attack(
        self, known: Candidates, one: Published, in_one: dict, three: Published, in_three: dict
    ) -> Figures:
        rows, later = one.row_of(), three.row_of()
        by_group = {in_one[person]: person for person in self.erased}
        pairs = sorted({(in_one[p], in_three[p]) for p in in_one if p in in_three and in_one[p] in by_group})
        if not pairs:
            return {"differences": 0, "comparisons": 0, "note": "no survivor was pooled"}
        old, new = (
            [rows[group] for group, _ in pairs],
            [later[group] for _, group in pairs],
        )
        size = one.sizes[old][:, None]
        difference = size * one.table[old] - (size - 1) * three.table[new]
        targets = np.array([by_group[group] for group, _ in pairs])
        return {
            **self._gain(known, one.table[old], difference, targets),
            "pooled_people": len({p for p in in_one if p in in_three and in_one[p] in by_group}),
            "note": "each withdrawn group less each pooled group that has one of its survivors",
            "sums_of_pools": self._sums(known, one, three, pairs, by_group),
        }

    def _sums(
        self,
        known: Candidates,
        one: Published,
        three: Published,
        pairs: list[tuple[int, int]],
        by_group: dict,
    ) -> Figures:
        """Attack the strongest combination of a pool: all its withdrawn groups less all its new ones."""
        rows, later = one.row_of(), three.row_of()
        pools: dict[frozenset[int], set[int]] = {}
        for number in {new for _, new in pairs}:
            pools.setdefault(frozenset(old for old, new in pairs if new == number), set()).add(number)
        vectors, alone, targets = [], [], []
        for olds, news in pools.items():
            total = sum(one.sizes[rows[o]] * one.table[rows[o]] for o in olds)
            rest = sum(three.sizes[later[n]] * three.table[later[n]] for n in news)
            people = sum(int(one.sizes[rows[o]]) for o in olds)
            left = people - sum(int(three.sizes[later[n]]) for n in news)
            vectors.append((total - rest) / left)
            alone.append(total / people)
            targets.append({by_group[o] for o in olds})
        return {
            "after": rate(*found(known, np.array(vectors), targets)),
            "baseline": rate(*found(known, np.array(alone), targets)),
            "note": "right if the nearest of all people is any of the pool's erased people",
        }

    def _newcomer_attack(self, known: Candidates, one: Published, two: Published, in_two: dict) -> Figures:
        rows, vectors, alone, targets = two.row_of(), [], [], []
        for group in sorted({in_two[int(person)] for person in self.cohorts[1] if int(person) in in_two}):
            row = rows[group]
            near, size = nearest_group(two.table[row], one), int(two.sizes[row])
            vectors.append(size * two.table[row] - (size - 1) * one.table[near])
            alone.append(two.table[row])
            own = [person for person, number in in_two.items() if number == group]
            targets.append(int(self.rng.choice(own)))
        old = set(one.digests)
        return {
            **self._gain(known, np.array(alone), np.array(vectors), np.array(targets)),
            "old_groups_unchanged": sum(digest in old for digest in two.digests),
            "old_groups": len(old),
            "note": "each new group less the nearest earlier one by content",
        }

    def _catalogue(self, one: Published, two: Published, three: Published) -> Figures:
        """Count new lines of the catalogue by how many of the newcomers explain them."""
        explained, fewest, lines = 0, None, 0
        for before, after, cohort in ((one, two, self.cohorts[1]), (two, three, self.cohorts[2])):
            raters = np.bincount(self.world.ratings[cohort].indices, minlength=len(self.column))
            new = [int(raters[self.column[item]]) for item in after.items if item not in set(before.items)]
            gone = set(before.items) - set(after.items)
            lines += len(new) + len(gone)
            explained += sum(one <= 1 for one in new) + len(gone)
            fewest = min([*new, *([] if fewest is None else [fewest])], default=None)
        return {"differences": explained, "comparisons": lines, "fewest_newcomers_behind_a_line": fewest}

    def _several(self, *releases: tuple[Published, dict]) -> Figures:
        """Count the people who were never pooled and have more than one profile in all releases."""
        several = compared = 0
        for person in sorted(set().union(*(group for _, group in releases))):
            groups = [(release, group[person]) for release, group in releases if person in group]
            if len(groups) > 1 and not self._is_pooled(person):
                compared += 1
                several += len({release.digests[release.row_of()[one]] for release, one in groups}) > 1
        return {
            "differences": several,
            "comparisons": compared,
            "note": "people in several releases whose profiles are not all the same; pooled survivors are apart",
        }

    def _is_pooled(self, person: int) -> bool:
        first, last = self.groups[str(DAYS[0])], self.groups[str(DAYS[2])]
        gone = {first[one] for one in self.erased}
        return person in first and first[person] in gone and person in last

    def _pooled_averages(
        self, one: Published, in_one: dict, three: Published, in_three: dict
    ) -> tuple[Figures, Figures]:
        """Look for pooled survivors by both of their profiles at once, against the better of the two alone.

        Only survivors are candidates. First with the link between the two groups given; then linked by content.
        """
        people = [person for person in sorted(in_one) if self._is_pooled(person)]
        old = one.table[[one.row_of()[in_one[person]] for person in people]]
        rows = [three.row_of()[in_three[person]] for person in people]
        pooled = replace(
            three, table=np.where(np.isin(np.arange(len(three.table)), rows)[:, None], three.table, np.nan)
        )
        linked = [nearest_group(profile, pooled) for profile in old]
        before, after = (self.known[str(day)].only(people) for day in (DAYS[0], DAYS[2]))
        targets = np.array(people)
        by_old, by_new, by_linked = (
            likelihoods(known, table, targets)
            for known, table in ((before, old), (after, three.table[rows]), (after, three.table[linked]))
        )
        alone = max((hits(before, by_old, targets), hits(after, by_new, targets)))
        share = sum(a == b for a, b in zip(linked, rows, strict=True))
        given = {"after": rate(*hits(before, by_old + by_new, targets)), "links": "given"}
        content = {
            "after": rate(*hits(before, by_old + by_linked, targets)),
            "links": "by content",
            "right_links": rate(share, len(people)),
        }
        return {**given, "baseline": rate(*alone)}, {**content, "baseline": rate(*alone)}
