"""Add up what releases of synthetic rows spent, and compare it with the budget that each was published under.

The judge recomputes everything from manifests and from the rows of the ledger: epsilon from rho by its own conversion
(zCDP to (epsilon, delta), [Canonne2020], Proposition 12), the sum over the releases of the period, withdrawn ones
included, and whether ledger and manifests say the same. A release that claims a smaller epsilon than its rho implies,
or that would spend more than is left, is refused. What the mechanism really disclosed is not examined here.

Offline only this release's own figures can be compared with each other.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from checks.about import About
from checks.evidence.case import Case
from checks.evidence.method_rules import rules_of
from checks.evidence.promises import promises_epsilon
from checks.history.ledgers import Key, LedgerFile, ledgers_of
from checks.history.past_release import read_manifest
from checks.history.places import Place, ever_public, own_place
from checks.registry import check
from checks.result import Finding
from tasks.store import read_json

PRECISION = 1e-6  # relative: another machine, another way to the minimum
LARGEST_ORDER = 25.0  # logarithm of α − 1

Problem = tuple[int, str]


@dataclass(frozen=True)
class Payment:
    """Hold what one release spent, by its manifest or by the ledger: rho, and the probability that it does not hold."""

    rho: float
    failure: float

    @classmethod
    def stated(cls, privacy: dict[str, Any]) -> "Payment":
        """Return what a manifest states."""
        return cls(float(privacy["rho"]), float(privacy["failure"]))

    def is_close_to(self, other: "Payment") -> bool:
        """Test whether two figures are the same but for rounding."""
        return math.isclose(self.rho, other.rho, rel_tol=PRECISION) and math.isclose(
            self.failure, other.failure, rel_tol=PRECISION, abs_tol=1e-30
        )


@check(
    "budget",
    threshold=0,
    offline=True,
    whole=True,
    units=("synthetic",),
    about=About(
        title="Privacy budget",
        summary="Add up what releases of synthetic rows spent",
        knows="The check has the manifests of all releases and the rows of the ledger.",
        tries="It computes what every release spent anew, adds it up, and compares the sum with the budget.",
        means="Beyond the budget more could be inferred about a person than was promised. None is allowed.",
        measure="contradictions",
        unit="contradictions",
    ),
)
def run(case: Case, threshold: float) -> Finding:
    """Count contradictions between what releases say that they spent, and sums beyond the budget; none is allowed."""
    manifest = case.release.manifest
    privacy, budget = manifest["privacy"], manifest["privacy"]["budget"]
    own = Payment.stated(privacy)
    past, problems = ([], []) if case.offline else _past(case)
    if not case.offline:
        problems += _mechanism(case, own)
    counted = [own, *(payment for snapshot, payment in past if _together(budget["per"], snapshot, manifest))]
    spent = epsilon_of(counted, budget["delta"])
    problems += [
        (
            int(not _same(epsilon_of([own], privacy["delta"]), privacy["epsilon"])),
            "epsilon does not follow from rho",
        ),
        (int(privacy["delta"] > budget["delta"]), "delta is larger than the budget's"),
        (
            int(spent > budget["epsilon"] * (1 + PRECISION)),
            f"together with {len(counted) - 1:,} earlier release(s) epsilon is {spent:.4g}, more than the budget's "
            f"{budget['epsilon']:g}",
        ),
    ]
    found = [words for count, words in problems if count]
    total = sum(count for count, _ in problems)
    scope = " (this release alone: earlier ones need the store)" if case.offline else ""
    detail = "; ".join(found) or (
        f"{len(counted):,} release(s) of the period spent epsilon {spent:.4g} of {budget['epsilon']:g} at delta "
        f"{budget['delta']:g}{scope}."
    )
    return Finding(total <= threshold, total, len(counted), detail)


def epsilon_of(payments: Sequence[Payment], delta: float) -> float:
    """Return the epsilon of several releases together, at a delta for all of them; infinite where they fail more often
    than that."""
    rho = math.fsum(payment.rho for payment in payments)
    left = delta - math.fsum(payment.failure for payment in payments)
    if left <= 0:
        return math.inf

    def bound(logarithm: float) -> float:
        order = 1 + math.exp(logarithm)
        return order * rho + (order * math.log1p(-1 / order) - logarithm - math.log(left)) / (order - 1)

    grid = np.linspace(-LARGEST_ORDER, LARGEST_ORDER, 401)
    start = int(np.argmin([bound(one) for one in grid]))
    around = (grid[max(0, start - 1)], grid[min(len(grid) - 1, start + 1)])
    least = minimize_scalar(bound, bounds=around, method="bounded", options={"xatol": 1e-10})
    return max(0.0, float(min(least.fun, bound(grid[start]))))


def _same(computed: float, stated: float) -> bool:
    return math.isclose(computed, stated, rel_tol=PRECISION)


def _together(per: str, snapshot: str, manifest: dict[str, Any]) -> bool:
    """Test whether a release of this snapshot shares the budget: of the same calendar year, or of the population."""
    return per == "population" or (per == "year" and snapshot[:4] == str(manifest["snapshot"])[:4])


def _mechanism(case: Case, own: Payment) -> list[Problem]:
    """Compare the manifest with what the mechanism says that its parts spent (spent.json of the owner)."""
    path = case.private / "spent.json" if case.private else None
    if path is None or not path.exists():
        return [(1, "the mechanism's account (spent.json) is not among the owner's files")]
    account = read_json(path)
    parts = math.fsum(float(value) for value in account["parts"].values())
    spent = Payment(max(parts, float(account["rho"])), float(account["failure"]))
    more = spent.rho > own.rho * (1 + PRECISION) or spent.failure > own.failure * (1 + PRECISION)
    return [(int(more), "the mechanism spent more than the manifest states")]


def _past(case: Case) -> tuple[list[tuple[str, Payment]], list[Problem]]:
    """Return snapshot and payment of every release of this population that was public before, and contradictions."""
    place = own_place(case.private)
    if place is None:
        return [], [(1, "not examined: the private directory belongs to no store with earlier releases")]
    private, key = place.parents[1], (place.parent.name, place.name)
    places = {(one.name, one.directory): one for one in ever_public(private)}
    ledger = _ledger(case, private, key)
    entered = {} if ledger is None else {name: Payment(*one) for name, one in ledger.spending().items()}
    published = {} if ledger is None else ledger.releases()
    last = published.get(key, math.inf)
    found, wrong = [], 0
    for other in {*entered, *_unentered(places, key, published)} - {key}:
        if published.get(other, -1) >= last:
            continue  # published after the one that is judged
        stated = _stated(places, other)
        payments = [one for one in (stated, entered.get(other)) if one is not None]
        wrong += int(len(payments) < 2 or not payments[0].is_close_to(payments[1]))
        most = max(payments, key=lambda one: (one.rho, one.failure))
        found.append((other[1], most))
    mine = entered.get(key)
    problems = [
        (wrong, "releases whose manifest and ledger disagree about what they spent"),
        (
            int(mine is not None and not mine.is_close_to(Payment.stated(case.release.manifest["privacy"]))),
            "the ledger entered another amount for this release",
        ),
    ]
    return found, problems


def _ledger(case: Case, private: Any, key: Key) -> LedgerFile | None:
    """Return the ledger of this release's population: the one that has it, else the one it is to be entered into."""
    ledgers = ledgers_of(private)
    for ledger in ledgers:
        if key in ledger.releases():
            return ledger
    entry = case.private / "ledger" / "entry.json" if case.private else None
    population = read_json(entry)["population"] if entry is not None and entry.exists() else key[0]
    return next((ledger for ledger in ledgers if ledger.population == population), None)


def _unentered(places: dict[Key, Place], key: Key, published: dict[Key, int]) -> Iterator[Key]:
    """Yield public releases of synthetic rows of this name that the ledger does not have."""
    for other, place in places.items():
        is_unknown = other[0] == key[0] and other not in published
        if is_unknown and rules_of(read_manifest(place).get("method")).is_synthetic:
            yield other


def _stated(places: dict[Key, Place], key: Key) -> Payment | None:
    """Return what the manifest of a past release states; None: it states nothing that can be read."""
    if key not in places:
        return None
    privacy = read_manifest(places[key]).get("privacy")
    return Payment.stated(privacy) if isinstance(privacy, dict) and promises_epsilon(privacy) else None
