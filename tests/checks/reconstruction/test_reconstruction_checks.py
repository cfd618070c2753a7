"""Test the gate on disguised records of single people: what is estimated from them, what is refused, and by which
check.
"""

import json
from pathlib import Path

import made_releases as made
import numpy as np
import pytest
from test_bad_releases import names_removed, noisy, single, suppressed, table

from checks.attacks import kmeans_reconstruction, nearest_record, svd_em_reconstruction
from checks.evidence import release_view as release_module
from checks.evidence.views.as_ratings import RatingsRelease
from checks.evidence.views.raw import RawRelease, raw_view
from checks.gate import judge_case, run_attack, run_check, verify
from checks.linkage.absent_people import shadow_of
from checks.linkage.knowledge import Model
from checks.reconstruction import estimated_ratings
from checks.reconstruction.assessment import Attempt
from checks.reconstruction.estimated_ratings import ratings_view
from checks.reconstruction.original_ratings import Originals
from checks.reconstruction.rating_scale import RatingScale, rating_scale
from checks.registry import registered
from checks.report.page import write_report
from checks.report.words import MethodWords
from checks.stats import Tally, find_exposed
from tasks.engine import engine

NO = np.nan
RECONSTRUCTIONS = ("kmeans-reconstruction", "pca-reconstruction", "svd-em-reconstruction")


@pytest.fixture
def opened(tmp_path):
    """Put releases on disk and open them."""
    count = iter(range(100))
    return lambda release: made.case(release, tmp_path / str(next(count)))


def found(case, name):
    check = registered()[name]
    return run_check(check, case, check.threshold)


def by_hand(rows, unit="z-score", ratings=None):
    """A release of single people with these values (NaN: not published), in the order of its rows."""
    values = np.array(rows, dtype=np.float32)
    ratings = np.array(ratings if ratings is not None else np.where(np.isnan(values), NO, 3.0))
    known, items = np.nonzero(~np.isnan(ratings))
    matrix = made.csr(known, items, ratings[known, items], ratings.shape)
    return made.Made(
        matrix, np.arange(len(values)), values, k=2, c=1, step=0.0, method="perturbation", unit=unit
    )


# What is read, by hand


def test_the_strength_of_noise_by_hand(opened):
    # Squares 4 + 4 + 1 + 1 = 10 of 4 values, 1 + 1 of 2, nothing but 0: 1.5, 0, 0; together 12 of 8: .5.
    case = opened(by_hand([[2, -2, 1, -1], [1, -1, NO, NO], [0, 0, NO, NO]]))
    strength = estimated_ratings.NoiseStrength.of(case.release)
    assert strength.per_row.tolist() == [1.5, 0, 0]
    assert strength.pooled == pytest.approx(0.5)
    # By chance 4·.5 + 2·.25 = 2.5 over the values; apart 1, −.5 and −1.5: 1/.625, .25/1.25, 2.25/1.25; median 1.6.
    assert strength.flexible
    alike = estimated_ratings.NoiseStrength(np.array([1.5, 0]), 0.5, flexible=False)
    assert alike.amounts("gaussian") == pytest.approx([np.sqrt(0.5)] * 2)
    assert strength.amounts("uniform") == pytest.approx([np.sqrt(4.5), 0, 0])


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("every_item", [False, True])
def test_noise_of_each_records_own_is_detected(ratings, opened, flexible, every_item):
    case = opened(made.perturbed(ratings, 1.5, flexible=flexible, every_item=every_item))
    strength = estimated_ratings.NoiseStrength.of(case.release)
    assert strength.flexible is flexible
    assert strength.pooled == pytest.approx(1.5**2 / (3 if flexible else 1), rel=0.15)


def test_entries_beyond_the_noise_are_claimed_by_hand(opened):
    # Six values, squares 25 + 1 … : all noise but one; σ² = (25 + 5·1)/6 − 1 = 4, and 3σ = 6: nothing. α = √12 = 3.46.
    case = opened(by_hand([[5, 1, -1, 1, -1, 1]]))
    assert [len(block.codes) for block in estimated_ratings.claimed_entries(case.release, "gaussian")] == [0]
    (block,) = estimated_ratings.claimed_entries(case.release, "uniform")
    assert (block.items.tolist(), block.codes.tolist(), block.indptr.tolist()) == ([0], [5], [0, 1])


def test_unusual_ratings_are_claimed(opened):
    # First item: median 3, distances 0, 0, .1, .1, 2: their median .1, so 3 · 1.48 · .1 = .44 and only 5 stands out.
    rows = [[3, 3], [3, 3], [3.1, 3], [2.9, 3], [5, 3.5]]
    case = opened(by_hand(rows, "rating"))
    (block,) = estimated_ratings.claimed_entries(case.release, "gaussian")
    assert [(r, i) for r, i in zip(block.row_numbers(), block.items, strict=True)] == [(4, 0), (4, 1)]
    read = estimated_ratings.to_ratings(block, "rating", RatingScale(np.arange(1.0, 6), 0.5))
    assert read.values.tolist() == [5, 3]  # 3.5 is as near to 4


def test_levels_by_hand():
    assert RatingScale(np.array([1.0, 2, 4]), 0.5).nearest(np.array([-3, 1.4, 2.9, 3.1, 9])).tolist() == [
        1,
        1,
        2,
        4,
        4,
    ]
    jester = RatingScale.segments(-10, 10)
    assert (jester.levels[[0, -1]].tolist(), jester.half) == ([-9, 9], 1)


def test_guesses_by_hand(opened):
    # Two items: 1, 2, 3 and 5, 4. The others' mean of the first: 2.5, 2, 1.5; of the second 4, 5.
    ratings = [[1, 5], [2, 4], [3, NO]]
    case = opened(by_hand([[0, 0], [0, 0], [0, NO]], ratings=ratings))
    originals = Originals.of(case)
    reported = originals.guesses(knowing_person=True)
    order = np.lexsort((originals.rows, originals.ratings.indices))
    assert originals.ratings.data[order].tolist() == [1, 2, 3, 5, 4]
    assert reported["the item's mean"][order].tolist() == [2.5, 2, 1.5, 4, 5]
    assert reported["the person's mean"][order].tolist() == [3, 3, 3, 3, 3]
    # z-scores: −1, −1, 0 and 1, 1; of the others −.5, −.5, −1 and 1, 1; deviations 2, 1, 0.
    assert reported["the person's mean and the item"][order].tolist() == [2, 2.5, 3, 5, 4]
    assert originals.at(made.sp.csr_array(([7.0], ([2], [0])), shape=(3, 2)))[
        order
    ].tolist() == pytest.approx([NO, NO, 7, NO, NO], nan_ok=True)


@pytest.mark.slow
def test_best_entry_rule_is_chosen(ratings, opened):
    kinds = {
        "gaussian": {"amount": 0.5, "every_item": True},
        "uniform": {"amount": 2.0, "every_item": True, "noise": "uniform"},
        "every entry": {"amount": 1.0},
    }
    for kind, how in kinds.items():
        assert estimated_ratings.entry_rule(opened(made.perturbed(ratings, **how))) == kind


def test_fully_rated_records_keep_every_entry(opened):
    """Every record has every item because every person rated every item: nothing may be discarded."""
    full = made.sp.csr_array(np.random.default_rng(0).choice(np.arange(1.0, 6), (60, 40)).astype(np.float32))
    case = opened(made.perturbed(full, 0.2))
    assert case.release.complete
    assert estimated_ratings.entry_rule(case) == "every entry"
    assert ratings_view(case).release.complete


# A release of z-scores as ratings


def test_z_scores_are_estimated_as_ratings(ratings, opened):
    case = opened(made.perturbed(ratings, 0.05))
    read = ratings_view(case)
    assert isinstance(read.release, RatingsRelease)
    assert (read.release.unit, read.release.step, read.as_published) == ("rating", 0, case)
    assert set(np.unique(np.concatenate([b.values for b in read.release.blocks()]))) <= {1, 2, 3, 4, 5}
    assert read.release.lengths.tolist() == case.release.lengths.tolist()
    assert ratings_view(read) is read
    assert isinstance(
        shadow_of(read).release, RatingsRelease
    )  # absent people are sought in what is read of the shadow
    assert ratings_view(opened(noisy(ratings))).release.unit == "rating"


@pytest.mark.parametrize("every_item", [False, True])
def test_large_releases_are_estimated_into_files(ratings, tmp_path, monkeypatch, every_item):
    """In files or held: the same blocks; and the files go with the case."""
    made_one = made.perturbed(ratings, 1.0, every_item=every_item)
    held = made.case(made_one, tmp_path / "held")
    monkeypatch.setattr(release_module, "CACHE_BYTES", 0)
    published, private = made.write(made_one, tmp_path / "files")
    monkeypatch.setattr(release_module, "BLOCK_CELLS", 20 * ratings.shape[1])
    release = made.Release(published, private)
    truth = made.Truth.build(release, made.Membership.read(private), made.blocks(made_one))
    case = made.Case(release, truth, private)
    for blocks in (ratings_view(case).release.blocks(), ratings_view(case).release.long_blocks()):
        pieces = list(blocks)
        for name in ("codes", "columns"):
            whole = np.concatenate([getattr(b, name) for b in ratings_view(held).release.blocks()])
            assert np.array_equal(np.concatenate([getattr(b, name) for b in pieces]), whole)
    assert len(list(ratings_view(case).release.blocks())) == 15
    scoreboards = [found(one, "scoreboard-rh") for one in (held, case)]
    assert scoreboards[0].to_json() == scoreboards[1].to_json()
    case.close()
    held.close()
    assert not list(private.glob(".attack-*"))


# The whole gate


@pytest.fixture(scope="module")
def verdicts(ratings, tmp_path_factory):
    """Every check on a perturbed release; judged once."""
    judged = {}

    def get(**how):
        key = json.dumps(how)
        if key not in judged:
            case = made.case(made.perturbed(ratings, **how), tmp_path_factory.mktemp("perturbed") / "x")
            judged[key] = {result.name: result for result in judge_case(case, {}).checks}
            case.close()
        return judged[key]

    return get


LITTLE, MANY_KNOWN = {"amount": 1 / 3}, {"amount": 40.0, "every_item": True}
SETTINGS = (
    LITTLE,
    {"amount": 1.0, "flexible": True},
    {"amount": 1.0, "every_item": True},
    {"amount": 2.0, "every_item": True, "noise": "uniform"},
    {"amount": 3.0, "every_item": True, "flexible": True},
    MANY_KNOWN,
)


@pytest.mark.parametrize("how", SETTINGS, ids=str)
def test_every_check_reports_on_z_scores(verdicts, how):
    results = verdicts(**how)
    for result in results.values():
        assert not result.void, result.detail
        json.dumps(result.to_json(), allow_nan=False)
    assert results["integrity"].passed, results["integrity"].detail
    assert not results["k-anonymity"].applicable


def test_little_noise_fails_by_what_it_reveals(verdicts):
    results = verdicts(**LITTLE)
    failed = {name for name, result in results.items() if not result.passed}
    assert {*RECONSTRUCTIONS, "scoreboard-rh", "fuzzy-rating", "nearest-record", "link-existence"} <= failed
    detail = results["kmeans-reconstruction"].detail
    assert detail.startswith(
        "k-means recovers 57.9% of 8,174 ratings exactly (clusters) (a guess by the item's mean: 36.1%)"
    )
    assert "R-MAE" in detail
    assert "Accuracy 0.579" in detail
    outcome = results["svd-em-reconstruction"].outcomes[0].to_json()
    assert {"zscore-MAE", "P-MAE", "Accuracy", "ratings"} <= set(outcome)


def test_detected_entries_report_precision_and_recall(verdicts):
    results = verdicts(amount=1.0, every_item=True)
    assert not results["kmeans-reconstruction"].passed
    assert "of what it claims" in results["kmeans-reconstruction"].detail
    reported = {outcome.knowledge: outcome.to_json() for outcome in results["kmeans-reconstruction"].outcomes}
    figures = reported["clusters, entries beyond gaussian noise"]
    assert figures["precision"] > 0.8
    assert 0 < figures["recall"] < 0.5
    assert figures["claims_right"] > 3 * figures["claims_by_chance"]


def test_noise_that_hides_everything_passes_every_attack(verdicts):
    """The way is open; what is left to say against such a release is that it is of no use."""
    results = verdicts(**MANY_KNOWN)
    assert [name for name, result in results.items() if not result.passed] == []


def test_many_small_hints_add_up(verdicts):
    """At σ = 5 on every item hardly a rating is recovered, but well-known people are still found."""
    results = verdicts(amount=5.0, every_item=True)
    assert all(results[name].passed for name in RECONSTRUCTIONS)
    assert not results["nearest-record"].passed
    assert "z-scores by product" in results["nearest-record"].detail


def test_products_and_distances_by_hand(opened):
    # One gave 5 and 1, the other 1 and 5: z-scores (1, −1) and (−1, 1). Published (3, 1) and (.1, .05): the first is
    # further from (1, −1), by 8 to 1.91, but its product with it is the larger, 2 to .05; as with (2, −2), the ratings
    # less their mean.
    case = opened(by_hand([[3, 1], [0.1, 0.05]], ratings=[[5, 1], [1, 5]]))
    first = np.flatnonzero(case.truth.row_of_user == 0)
    tried = {
        "distance": nearest_record._to_scores(case, first, 1.0),
        "product": nearest_record._to_scores(case, first, nearest_record.PRODUCT_SCALE),
        "few": nearest_record._few_to_scores(case, first, Model(2)),
    }
    assert {name: trial.ranks.identification[0] for name, trial in tried.items()} == {
        "distance": 0,
        "product": 1,
        "few": 1,
    }


def test_figures_do_not_depend_on_the_order_of_checks(ratings, opened):
    one, other = (opened(made.perturbed(ratings, 0.5)) for _ in range(2))
    for name in RECONSTRUCTIONS:
        assert found(one, name).to_json() == found(other, name).to_json()


def test_large_releases_are_attacked_by_a_sample(ratings, opened, monkeypatch):
    """As much is recovered of a hundred people as of three hundred, within the interval."""
    whole = {name: found(opened(made.perturbed(ratings, 1 / 3)), name) for name in RECONSTRUCTIONS}
    monkeypatch.setattr("checks.evidence.views.sample.MOST_CELLS", 100 * ratings.shape[1])
    for name in RECONSTRUCTIONS:
        result = found(opened(made.perturbed(ratings, 1 / 3)), name)
        assert "Examined: 100 of 300 groups" in result.detail
        assert result.ci_low < whole[name].observed < result.ci_high


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_workers_find_the_same(ratings, tmp_path):
    release = made.perturbed(ratings, 1.0, every_item=True)
    published, private = made.write(release, tmp_path / "x")
    reported = []
    for count in (0, 2):
        with engine(count) as on:
            opened = made.Release(published, private)
            truth = made.Truth.build(opened, made.Membership.read(private), made.blocks(release))
            case = made.Case(opened, truth, private, made.SNAPSHOT, on)
            names = ("exact-rating", "nearest-record", *RECONSTRUCTIONS)
            reported.append([found(case, name).to_json() for name in names])
            case.close()
    assert reported[0] == reported[1]


# Other releases of single people


def test_groups_have_nothing_to_reconstruct(case):
    for name in RECONSTRUCTIONS:
        result = found(case("padded"), name)
        assert (result.passed, result.n, result.observed) == (True, 0, 0)
        assert "every record is shared by at least 5 people" in result.detail
        assert not result.applicable


def test_groups_smaller_than_promised_are_not_excused(releases, opened):
    case = opened(releases["padded"].but(k=7, shadow=None))
    result = found(case, "kmeans-reconstruction")
    assert not result.passed
    assert "7 are promised" in result.detail
    assert result.applicable


def test_verbatim_ratings_are_reported_and_not_judged(ratings, opened):
    for release in (names_removed(ratings), suppressed(ratings, 0.5)):
        case = opened(release)
        for name in RECONSTRUCTIONS:
            result = found(case, name)
            assert result.passed
            assert not result.applicable
            assert "suppression publishes the ratings it keeps unchanged" in result.detail
            assert result.observed == pytest.approx(1)


def test_a_perturbation_that_perturbs_nothing_is_judged(ratings, opened):
    for name in RECONSTRUCTIONS:
        assert not found(opened(names_removed(ratings, method="perturbation")), name).passed


def test_noise_declared_as_suppression_is_judged(ratings, opened):
    near = table(ratings) + np.random.default_rng(1).normal(0, 0.2, ratings.shape)
    case = opened(single(ratings, near.astype(np.float32), "suppression", step=0.0))
    result = found(case, "kmeans-reconstruction")
    assert not result.passed
    assert "(nearest level)" in result.detail


def gna(ratings, amount, *, clip=True):
    """Gaussian noise addition ([Casino2015]): filled with the centre, noise in units of every item's deviation."""
    filled = np.nan_to_num(table(ratings), nan=3.0)
    values = filled + amount * filled.std(axis=0) * np.random.default_rng(2).normal(size=filled.shape)
    values = np.clip(values, 1, 5) if clip else values
    return single(ratings, values.astype(np.float32), "perturbation", step=0.1 if clip else 0.0)


@pytest.mark.parametrize("clip", [True, False])
def test_noise_on_filled_ratings_does_not_hide_what_was_rated(ratings, opened, clip):
    case = opened(gna(ratings, 0.5, clip=clip))
    assert found(case, "integrity").passed
    for name in RECONSTRUCTIONS:
        result = found(case, name)
        assert not result.passed, result.detail
        assert not result.void
    strong = opened(gna(ratings, 10.0, clip=clip))
    assert found(strong, "integrity").passed
    assert found(strong, "kmeans-reconstruction").passed


@pytest.mark.parametrize(("clip", "amount"), [(True, 6.0), (False, 7.0)])
def test_noise_in_units_of_the_item_is_weighed_by_item(ratings, opened, clip, amount):
    """Every item the same weight: at most 1/k are found. Weighted by its variance, which is public: more are."""
    result = found(opened(gna(ratings, amount, clip=clip)), "nearest-record")
    reported = {outcome.knowledge: outcome.risk for outcome in result.outcomes}
    weighted = {name for name in reported if "variance" in name or "median distance" in name}
    assert len(weighted) == 6
    assert all(reported[name].interval[1] <= 1 / 5 for name in reported.keys() - weighted)
    assert not result.passed
    assert "variance" in result.detail.partition(" (at most")[2].partition("allowed")[0]


def mixed(ratings, few, little, much):
    """Much noise for most people, but little for a few; and who these are."""
    release, quiet = (made.perturbed(ratings, amount, every_item=True) for amount in (much, little))
    who = np.random.default_rng(1).choice(ratings.shape[0], few, replace=False)
    values = release.values.copy()
    values[release.group_of[who]] = quiet.values[quiet.group_of[who]]
    return release.but(values=values)


@pytest.mark.parametrize("few", [9, 15])
def test_a_few_hardly_disguised_people_do_not_hide_among_many(ratings, opened, few):
    """By the limits of most records nothing stands out; by their own, much does."""
    case = opened(mixed(ratings, few, 0.7, 40.0))
    assert not estimated_ratings.NoiseStrength.of(case.release).flexible
    for name in ("kmeans-reconstruction", "pca-reconstruction"):
        result = found(case, name)
        assert not result.passed
        assert "entries beyond each record's gaussian noise: rated" in result.detail


def test_one_person_without_disguise_is_enough(ratings, opened):
    """On average nothing is recovered: only this person is exposed."""
    release = made.perturbed(ratings, 40.0, every_item=True)
    most = int(np.argmax(np.diff(ratings.indptr)))
    quiet = made.perturbed(ratings, 0.1, every_item=True)
    release.values[release.group_of[most]] = quiet.values[quiet.group_of[most]]
    result = found(opened(release), "pca-reconstruction")
    assert (result.passed, result.ci_high <= result.threshold) == (False, True)
    assert "1 of 300 people are exposed" in result.detail


def test_few_hardly_disguised_ratings_do_not_hide_either(ratings, opened):
    strong, weak = gna(ratings, 20.0, clip=False), gna(ratings, 0.2, clip=False)
    strong.values[:15] = weak.values[:15]
    case = opened(strong)
    assert "each record's gaussian" in estimated_ratings.candidate_rules(case.release)
    result = found(case, "kmeans-reconstruction")
    assert not result.passed
    assert "each record's" in result.detail


def test_exposed_people_by_hand():
    # Two tests: .025 for each. All of n right: the bound is .025^(1/n), .54 of 6 and .478 of 5.
    hits, trials = np.array([6.0, 5, 0]), np.array([6, 5, 0])
    tally = Tally(hits, trials, np.zeros(3))
    assert tally.gain_low(2) == pytest.approx([0.025 ** (1 / 6), 0.025 ** (1 / 5), 0])
    assert find_exposed([tally]).tolist() == [True, False, False]
    # By luck half of them: (.54 − .5) / .5; and as many tests again leave .0125^(1/6) = .48.
    assert Tally(hits, trials, np.array([3.0, 0, 0])).gain_low(2)[0] == pytest.approx(0.0816, abs=1e-3)
    assert not find_exposed([tally, tally]).any()


def test_z_scores_declared_as_groups_break_no_check(ratings, opened, recwarn):
    case = opened(made.perturbed(ratings, 1.0).but(method="predictive-padded"))
    verdict = judge_case(case, {})
    assert not verdict.passed
    assert not [str(one.message) for one in recwarn if issubclass(one.category, RuntimeWarning)]


def test_continuous_ratings_are_recovered_to_a_segment(opened):
    draw = np.random.default_rng(3)
    rated = np.where(draw.random((200, 60)) < 0.5, draw.uniform(-10, 10, (200, 60)), NO)
    rows, items = np.nonzero(~np.isnan(rated))
    ratings = made.csr(rows, items, rated[rows, items], rated.shape)
    case = opened(made.perturbed(ratings, 0.05, scale=(-10.0, 10.0)))
    assert rating_scale(case).half == 1
    result = found(case, "kmeans-reconstruction")
    assert not result.passed
    assert not result.void


@pytest.mark.parametrize("name", RECONSTRUCTIONS)
def test_raw_data_are_recovered_at_once(ratings, opened, name):
    raw = raw_view(opened(noisy(ratings)))
    assert isinstance(raw.release, RawRelease)
    reported = run_attack(name, raw)
    assert (reported["target"], reported["void"]) == ("raw", False)
    assert max(line["risk"] for line in reported["results"]) == 1


# Controls and manifests


@pytest.mark.parametrize("module", [kmeans_reconstruction, svd_em_reconstruction])
def test_attack_that_fails_on_undisguised_values_is_void(ratings, opened, monkeypatch, module):
    def blind(disguised):
        constant = disguised.values.copy()
        constant.data = np.full(constant.nnz, 1.0)
        return [Attempt("blind", constant)]

    monkeypatch.setattr(module, "attack", blind)
    result = found(opened(made.perturbed(ratings, 5.0)), module.__name__.rpartition(".")[2].replace("_", "-"))
    assert not result.passed
    assert result.void


def test_one_number_beyond_all_noise_is_a_contradiction(ratings, opened):
    release = made.perturbed(ratings, 1.0)
    there = np.argwhere(~np.isnan(release.values))[0]
    release.values[tuple(there)] = 1e6
    result = found(opened(release), "integrity")
    assert (result.passed, result.observed) == (False, 1)
    assert "z-scores that no noise explains" in result.detail


def test_the_public_cannot_verify_z_scores(ratings, opened):
    offline = {
        check.name: check for check in verify(opened(made.perturbed(ratings, 1.0)).release.directory).checks
    }
    assert offline["integrity"].passed
    assert "not verified" in offline["k-anonymity"].detail


@pytest.mark.slow
def test_the_report_shows_z_scores(ratings, opened):
    case = opened(made.perturbed(ratings, 1.0, every_item=True))
    verdict = judge_case(case, {})
    write_report(case.release.directory, verdict, Path(case.private) / "utility", MethodWords())
    page = (case.release.directory / "report.html").read_text(encoding="utf-8")
    assert "z-scores of ratings from 1 to 5" in page
    assert "at most 1 in 5" in page
    assert "kmeans-reconstruction" in page


# On MovieLens 100K: where each attack stops succeeding (docs/decisions/0011-reconstruction.md)

ALL = {"every_item": True}
STRENGTHS = [
    ({"amount": 1 / 3}, {*RECONSTRUCTIONS, "nearest-record"}),
    # k-means fails for what it reveals of some people, not of the average.
    ({"amount": 2 / 3}, {*RECONSTRUCTIONS, "nearest-record"}),
    ({"amount": 1.0}, {"pca-reconstruction", "svd-em-reconstruction", "nearest-record"}),
    ({"amount": 2.0}, {"nearest-record"}),
    ({"amount": 1.0, "flexible": True}, {*RECONSTRUCTIONS, "nearest-record"}),
    ({"amount": 3.0} | ALL, {*RECONSTRUCTIONS, "nearest-record"}),
    ({"amount": 8.0} | ALL, {"nearest-record"}),
    ({"amount": 30.0} | ALL, set()),
    ({"amount": 8.7, "noise": "uniform"} | ALL, {*RECONSTRUCTIONS, "nearest-record"}),
]


@pytest.mark.data
@pytest.mark.parametrize(("how", "refused"), STRENGTHS, ids=[str(how) for how, _ in STRENGTHS])
def test_where_attacks_stop_succeeding(hundred_thousand, opened, how, refused):
    case = opened(made.perturbed(hundred_thousand, **how))
    results = {name: found(case, name) for name in (*RECONSTRUCTIONS, "nearest-record")}
    assert {name for name, result in results.items() if not result.passed} == refused
    assert not any(result.void for result in results.values())


@pytest.fixture(scope="module")
def lines():
    return []


@pytest.fixture
def hundred_thousand(real_data, lines):
    """MovieLens 100K, read once."""
    if not lines:
        table = np.loadtxt(real_data("ml-100k") / "u.data", dtype=np.int64)
        users, items = (np.unique(table[:, n], return_inverse=True)[1] for n in (0, 1))
        lines.append(made.csr(users, items, table[:, 2], (users.max() + 1, items.max() + 1)))
    return lines[0]
