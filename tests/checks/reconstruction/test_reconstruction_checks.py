"""The gate on disguised records of single people: what is read in them, what is refused and by whom, what is not."""

import json
from pathlib import Path

import made_releases as made
import numpy as np
import pytest
from test_bad_releases import names_removed, noisy, single, suppressed, table

from checks import release as release_module
from checks.attacks import kmeans_reconstruction, nearest_record, svd_em_reconstruction
from checks.exposure import expose
from checks.gate import judge_case, run_check, verify
from checks.linkage.knowledge import Model
from checks.raw import RawRelease
from checks.read import ReadRelease
from checks.reconstruction import reading
from checks.reconstruction.exposed import Tally, exposed
from checks.reconstruction.judged import Attempt
from checks.reconstruction.originals import Originals
from checks.reconstruction.scale import RatingScale
from checks.registry import registered
from checks.report.page import write_report
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
    strength = reading.Strength.of(case.release)
    assert strength.per_row.tolist() == [1.5, 0, 0]
    assert strength.pooled == pytest.approx(0.5)
    # By chance 4·.5 + 2·.25 = 2.5 over the values; apart 1, −.5 and −1.5: 1/.625, .25/1.25, 2.25/1.25; median 1.6.
    assert strength.flexible
    alike = reading.Strength(np.array([1.5, 0]), 0.5, flexible=False)
    assert alike.amounts("gaussian") == pytest.approx([np.sqrt(0.5)] * 2)
    assert strength.amounts("uniform") == pytest.approx([np.sqrt(4.5), 0, 0])


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("every_item", [False, True])
def test_noise_of_everybodys_own_is_noticed(ratings, opened, flexible, every_item):
    case = opened(made.perturbed(ratings, 1.5, flexible=flexible, every_item=every_item))
    strength = reading.Strength.of(case.release)
    assert strength.flexible is flexible
    assert strength.pooled == pytest.approx(1.5**2 / (3 if flexible else 1), rel=0.15)


def test_entries_that_stand_out_are_claimed_by_hand(opened):
    # Six values, squares 25 + 1 … : all noise but one; σ² = (25 + 5·1)/6 − 1 = 4, and 3σ = 6: nothing. α = √12 = 3.46.
    case = opened(by_hand([[5, 1, -1, 1, -1, 1]]))
    assert [len(block.codes) for block in reading.claimed(case.release, "gaussian")] == [0]
    (block,) = reading.claimed(case.release, "uniform")
    assert (block.items.tolist(), block.codes.tolist(), block.indptr.tolist()) == ([0], [5], [0, 1])


def test_of_ratings_what_is_unlike_most_peoples_is_claimed(opened):
    # First item: median 3, distances 0, 0, .1, .1, 2: their median .1, so 3 · 1.48 · .1 = .44 and only 5 stands out.
    rows = [[3, 3], [3, 3], [3.1, 3], [2.9, 3], [5, 3.5]]
    case = opened(by_hand(rows, "rating"))
    (block,) = reading.claimed(case.release, "gaussian")
    assert [(r, i) for r, i in zip(block.row_numbers(), block.items, strict=True)] == [(4, 0), (4, 1)]
    read = reading.rated_as(block, "rating", RatingScale(np.arange(1.0, 6), 0.5))
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
    # Two items: 1, 2, 3 and 5, 4. Everybody else's mean of the first: 2.5, 2, 1.5; of the second 4, 5.
    ratings = [[1, 5], [2, 4], [3, NO]]
    case = opened(by_hand([[0, 0], [0, 0], [0, NO]], ratings=ratings))
    originals = Originals.of(case)
    told = originals.guesses(knowing_person=True)
    order = np.lexsort((originals.rows, originals.ratings.indices))
    assert originals.ratings.data[order].tolist() == [1, 2, 3, 5, 4]
    assert told["the item's mean"][order].tolist() == [2.5, 2, 1.5, 4, 5]
    assert told["the person's mean"][order].tolist() == [3, 3, 3, 3, 3]
    # z-scores: −1, −1, 0 and 1, 1; of the others −.5, −.5, −1 and 1, 1; deviations 2, 1, 0.
    assert told["the person's mean and the item"][order].tolist() == [2, 2.5, 3, 5, 4]
    assert originals.at(made.sp.csr_array(([7.0], ([2], [0])), shape=(3, 2)))[
        order
    ].tolist() == pytest.approx([NO, NO, 7, NO, NO], nan_ok=True)


def test_readings_that_tell_most_are_chosen(ratings, opened):
    kinds = {
        "gaussian": {"amount": 0.5, "every_item": True},
        "uniform": {"amount": 2.0, "every_item": True, "noise": "uniform"},
        "every entry": {"amount": 1.0},
    }
    for kind, how in kinds.items():
        assert opened(made.perturbed(ratings, **how)).reading == kind


def test_who_rated_everything_is_taken_to_have(opened):
    """Every record has every item because everybody rated every item: nothing must be thrown away."""
    full = made.sp.csr_array(np.random.default_rng(0).choice(np.arange(1.0, 6), (60, 40)).astype(np.float32))
    case = opened(made.perturbed(full, 0.2))
    assert case.release.complete
    assert case.reading == "every entry"
    assert case.as_ratings.release.complete


# A release of z-scores as ratings


def test_z_scores_are_read_as_ratings(ratings, opened):
    case = opened(made.perturbed(ratings, 0.05))
    read = case.as_ratings
    assert isinstance(read.release, ReadRelease)
    assert (read.release.unit, read.release.step, read.as_published) == ("rating", 0, case)
    assert set(np.unique(np.concatenate([b.values for b in read.release.blocks()]))) <= {1, 2, 3, 4, 5}
    assert read.release.lengths.tolist() == case.release.lengths.tolist()
    assert read.as_ratings is read
    assert isinstance(
        read.shadow.release, ReadRelease
    )  # absent people are sought in what is read of the shadow
    assert opened(noisy(ratings)).as_ratings.release.unit == "rating"


@pytest.mark.parametrize("every_item", [False, True])
def test_large_releases_are_read_into_files(ratings, tmp_path, monkeypatch, every_item):
    """In files or held: the same blocks; and the files go with the case."""
    made_one = made.perturbed(ratings, 1.0, every_item=every_item)
    held = made.case(made_one, tmp_path / "held")
    monkeypatch.setattr(release_module, "CACHE_BYTES", 0)
    published, private = made.write(made_one, tmp_path / "files")
    monkeypatch.setattr(release_module, "BLOCK_CELLS", 20 * ratings.shape[1])
    release = made.Release(published, private)
    truth = made.Truth.build(release, made.Membership.read(private), made.blocks(made_one))
    case = made.Case(release, truth, private)
    for blocks in (case.as_ratings.release.blocks(), case.as_ratings.release.long_blocks()):
        pieces = list(blocks)
        for name in ("codes", "columns"):
            whole = np.concatenate([getattr(b, name) for b in held.as_ratings.release.blocks()])
            assert np.array_equal(np.concatenate([getattr(b, name) for b in pieces]), whole)
    assert len(list(case.as_ratings.release.blocks())) == 15
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


LITTLE, MUCH = {"amount": 1 / 3}, {"amount": 40.0, "every_item": True}
SETTINGS = (
    LITTLE,
    {"amount": 1.0, "flexible": True},
    {"amount": 1.0, "every_item": True},
    {"amount": 2.0, "every_item": True, "noise": "uniform"},
    {"amount": 3.0, "every_item": True, "flexible": True},
    MUCH,
)


@pytest.mark.parametrize("how", SETTINGS, ids=str)
def test_every_check_has_something_to_say(verdicts, how):
    results = verdicts(**how)
    for result in results.values():
        assert not any(word in result.detail for word in ("crashed", "VOID", "cannot be")), result.detail
        json.dumps(result.to_json(), allow_nan=False)
    assert results["integrity"].passed, results["integrity"].detail
    assert results["k-anonymity"].detail.startswith("not applicable")


def test_little_noise_is_refused_by_what_it_gives_away(verdicts):
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


def test_detected_entries_are_told_with_precision_and_recall(verdicts):
    results = verdicts(amount=1.0, every_item=True)
    assert not results["kmeans-reconstruction"].passed
    assert "of what it claims" in results["kmeans-reconstruction"].detail
    told = {outcome.knowledge: outcome.to_json() for outcome in results["kmeans-reconstruction"].outcomes}
    figures = told["clusters, entries beyond gaussian noise"]
    assert figures["precision"] > 0.8
    assert 0 < figures["recall"] < 0.5
    assert figures["claims_right"] > 3 * figures["claims_by_chance"]


def test_noise_that_hides_everything_passes_every_attack(verdicts):
    """The way is open; what is left to say against such a release is that it is of no use."""
    results = verdicts(**MUCH)
    assert [name for name, result in results.items() if not result.passed] == ["series"]


def test_many_small_hints_add_up(verdicts):
    """At σ = 5 on every item hardly a rating can be told, and everybody can be found who is known well."""
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
        "product": nearest_record._to_scores(case, first, nearest_record.ALIKE),
        "few": nearest_record._few_to_scores(case, first, Model(2)),
    }
    assert {name: trial.ranks.identification[0] for name, trial in tried.items()} == {
        "distance": 0,
        "product": 1,
        "few": 1,
    }


def test_figures_do_not_hang_on_who_asks(ratings, opened):
    one, other = (opened(made.perturbed(ratings, 0.5)) for _ in range(2))
    for name in RECONSTRUCTIONS:
        assert found(one, name).to_json() == found(other, name).to_json()


def test_large_releases_are_attacked_by_a_sample(ratings, opened, monkeypatch):
    """As much is told of a hundred people as of three hundred, within the interval."""
    whole = {name: found(opened(made.perturbed(ratings, 1 / 3)), name) for name in RECONSTRUCTIONS}
    monkeypatch.setattr("checks.sample.MOST_CELLS", 100 * ratings.shape[1])
    for name in RECONSTRUCTIONS:
        result = found(opened(made.perturbed(ratings, 1 / 3)), name)
        assert "Looked at: 100 of 300 groups" in result.detail
        assert result.ci_low < whole[name].observed < result.ci_high


def test_workers_find_the_same(ratings, tmp_path):
    release = made.perturbed(ratings, 1.0, every_item=True)
    published, private = made.write(release, tmp_path / "x")
    told = []
    for count in (0, 2):
        with engine(count) as on:
            opened = made.Release(published, private)
            truth = made.Truth.build(opened, made.Membership.read(private), made.blocks(release))
            case = made.Case(opened, truth, private, made.SNAPSHOT, on)
            names = ("exact-rating", "nearest-record", *RECONSTRUCTIONS)
            told.append([found(case, name).to_json() for name in names])
            case.close()
    assert told[0] == told[1]


# Other releases of single people


def test_groups_have_nothing_to_reconstruct(case):
    for name in RECONSTRUCTIONS:
        result = found(case("padded"), name)
        assert (result.passed, result.n, result.observed) == (True, 0, 0)
        assert "every record is shared by at least 5 people" in result.detail


def test_groups_smaller_than_promised_are_not_excused(releases, opened):
    case = opened(releases["padded"].but(k=7, shadow=None))
    result = found(case, "kmeans-reconstruction")
    assert not result.passed
    assert "promised are 7" in result.detail


def test_what_is_published_as_it_is_is_told_and_not_judged(ratings, opened):
    for release in (names_removed(ratings), suppressed(ratings, 0.5)):
        case = opened(release)
        for name in RECONSTRUCTIONS:
            result = found(case, name)
            assert result.passed
            assert result.detail.startswith("Not judged: suppression publishes what it keeps as it is")
            assert result.observed == pytest.approx(1)


def test_a_perturbation_that_perturbs_nothing_is_judged(ratings, opened):
    for name in RECONSTRUCTIONS:
        assert not found(opened(names_removed(ratings, method="perturbation")), name).passed


def test_calling_noise_suppression_does_not_help(ratings, opened):
    near = table(ratings) + np.random.default_rng(1).normal(0, 0.2, ratings.shape)
    case = opened(single(ratings, near.astype(np.float32), "suppression", step=0.0))
    result = found(case, "kmeans-reconstruction")
    assert not result.passed
    assert "(nearest level)" in result.detail


def gna(ratings, amount, *, clip=True):
    """Gaussian noise addition (paper 003): filled with the centre, noise in units of every item's deviation."""
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
        assert "VOID" not in result.detail
    strong = opened(gna(ratings, 10.0, clip=clip))
    assert found(strong, "integrity").passed
    assert found(strong, "kmeans-reconstruction").passed


@pytest.mark.parametrize(("clip", "amount"), [(True, 6.0), (False, 7.0)])
def test_noise_in_units_of_the_item_is_weighed_by_item(ratings, opened, clip, amount):
    """Every item the same weight: at most 1/k are found. By its variance, which everybody sees: more are."""
    result = found(opened(gna(ratings, amount, clip=clip)), "nearest-record")
    told = {outcome.knowledge: outcome.risk for outcome in result.outcomes}
    weighted = {name for name in told if "variance" in name or "median distance" in name}
    assert len(weighted) == 6
    assert all(told[name].interval[1] <= 1 / 5 for name in told.keys() - weighted)
    assert not result.passed
    assert "variance" in result.detail.partition(" (at most")[2].partition("allowed")[0]


def mixed(ratings, few, little, much):
    """Much noise for everybody, but little for a few; and who these are."""
    release, quiet = (made.perturbed(ratings, amount, every_item=True) for amount in (much, little))
    who = np.random.default_rng(1).choice(ratings.shape[0], few, replace=False)
    values = release.values.copy()
    values[release.group_of[who]] = quiet.values[quiet.group_of[who]]
    return release.but(values=values)


@pytest.mark.parametrize("few", [9, 15])
def test_a_few_hardly_disguised_people_do_not_hide_among_many(ratings, opened, few):
    """By the limits of most records nothing stands out; by their own, much does."""
    case = opened(mixed(ratings, few, 0.7, 40.0))
    assert not reading.Strength.of(case.release).flexible
    for name in ("kmeans-reconstruction", "pca-reconstruction"):
        result = found(case, name)
        assert not result.passed
        assert "entries beyond each record's gaussian noise: rated" in result.detail


def test_one_person_without_disguise_is_enough(ratings, opened):
    """On average nothing is told: this is about the person."""
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
    assert "each record's gaussian" in reading.readings(case.release)
    result = found(case, "kmeans-reconstruction")
    assert not result.passed
    assert "each record's" in result.detail


def test_who_is_exposed_by_hand():
    # Two tests: .025 for each. All of n right: the bound is .025^(1/n), .54 of 6 and .478 of 5.
    hits, trials = np.array([6.0, 5, 0]), np.array([6, 5, 0])
    tally = Tally(hits, trials, np.zeros(3))
    assert tally.gain_low(2) == pytest.approx([0.025 ** (1 / 6), 0.025 ** (1 / 5), 0])
    assert exposed([tally]).tolist() == [True, False, False]
    # By luck half of them: (.54 − .5) / .5; and as many tests again leave .0125^(1/6) = .48.
    assert Tally(hits, trials, np.array([3.0, 0, 0])).gain_low(2)[0] == pytest.approx(0.0816, abs=1e-3)
    assert not exposed([tally, tally]).any()


def test_z_scores_that_call_themselves_padded_groups_break_nothing(ratings, opened, recwarn):
    case = opened(made.perturbed(ratings, 1.0).but(method="predictive-padded"))
    verdict = judge_case(case, {})
    assert not verdict.passed
    assert not [str(one.message) for one in recwarn if issubclass(one.category, RuntimeWarning)]


def test_continuous_ratings_are_told_to_a_segment(opened):
    draw = np.random.default_rng(3)
    rated = np.where(draw.random((200, 60)) < 0.5, draw.uniform(-10, 10, (200, 60)), NO)
    rows, items = np.nonzero(~np.isnan(rated))
    ratings = made.csr(rows, items, rated[rows, items], rated.shape)
    case = opened(made.perturbed(ratings, 0.05, scale=(-10.0, 10.0)))
    assert case.rating_scale.half == 1
    result = found(case, "kmeans-reconstruction")
    assert not result.passed
    assert "VOID" not in result.detail


@pytest.mark.parametrize("name", RECONSTRUCTIONS)
def test_raw_data_are_told_at_once(ratings, opened, name):
    raw = opened(noisy(ratings)).raw
    assert isinstance(raw.release, RawRelease)
    told = expose(name, raw)
    assert (told["target"], told["void"]) == ("raw", False)
    assert max(line["risk"] for line in told["results"]) == 1


# Controls and manifests


@pytest.mark.parametrize("module", [kmeans_reconstruction, svd_em_reconstruction])
def test_an_attack_that_cannot_read_the_undisguised_shows_nothing(ratings, opened, monkeypatch, module):
    def blind(disguised):
        constant = disguised.values.copy()
        constant.data = np.full(constant.nnz, 1.0)
        return [Attempt("blind", constant)]

    monkeypatch.setattr(module, "attack", blind)
    result = found(opened(made.perturbed(ratings, 5.0)), module.__name__.rpartition(".")[2].replace("_", "-"))
    assert not result.passed
    assert result.detail.startswith("VOID: the positive control")


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
    assert offline["k-anonymity"].detail.startswith("NOT VERIFIED")


def test_the_report_shows_z_scores(ratings, opened):
    case = opened(made.perturbed(ratings, 1.0, every_item=True))
    verdict = judge_case(case, {})
    write_report(case.release.directory, verdict, Path(case.private) / "utility")
    page = (case.release.directory / "report.html").read_text(encoding="utf-8")
    assert "z-scores of ratings from 1 to 5" in page
    assert "at most 1 in 5" in page
    assert "kmeans-reconstruction" in page


# On MovieLens 100K: where each attack stops succeeding (docs/decisions/0011-reconstruction.md)

ALL = {"every_item": True}
STRENGTHS = [
    ({"amount": 1 / 3}, {*RECONSTRUCTIONS, "nearest-record"}),
    # k-means is refused for what it tells of some people, not of the average.
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
    assert not any("VOID" in result.detail for result in results.values())


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
