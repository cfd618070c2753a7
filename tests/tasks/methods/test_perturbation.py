"""Test perturbation: published values are the definition plus keyed noise, and the noise discloses nothing."""

import datetime
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from tasks import methods, pipeline
from tasks.cli import main
from tasks.config import parse
from tasks.data import profiles
from tasks.data.ratings import write_ids, write_matrix
from tasks.engine import Engine, engine
from tasks.errors import UsageError
from tasks.keys import OwnerKey
from tasks.profilers import perturbation
from tasks.store import Store, files_below
from tests.conftest import SNAPSHOT

KEY = OwnerKey(b"k" * 32)
LATER = SNAPSHOT + datetime.timedelta(days=31)
EVERY_SETTING = {
    "rated": {},
    "rated uniform": {"noise": "uniform", "amount": 0.5},
    "rated flexible": {"flexible": True},
    "all": {"entries": "all"},
    "all uniform flexible": {"entries": "all", "noise": "uniform", "amount": 2.0, "flexible": True},
    "gna": {"scheme": "gna"},
    "gna unclipped": {"scheme": "gna", "clip": False, "amount": 3.0},
}


def described(**tables):
    base = {
        "release": {"name": "t"},
        "source": {"format": "csv", "path": "-", "scale": [1, 5]},
        "privacy": {"method": "perturbation"},
    }
    return parse(base | {name: base.get(name, {}) | table for name, table in tables.items()})


@pytest.fixture
def disguise(tmp_path):
    """Release a matrix up to its profiles: → table (person, item) as published, NaN where nothing is."""
    numbers = itertools.count()

    def run(
        matrix,
        *,
        people=None,
        items=None,
        snapshot=SNAPSHOT,
        key=KEY,
        workers=None,
        purpose="release",
        **tables,
    ):
        place = tmp_path / f"given{next(numbers)}"
        place.mkdir()
        write_ids(place, "user", people or [f"person {n:04}" for n in range(matrix.shape[0])])
        write_ids(place, "item", items or [f"i{n:04}" for n in range(matrix.shape[1])])
        write_matrix(place, matrix)
        config = described(**tables)
        store = tmp_path / f"store{next(numbers)}"
        opened = pipeline.open_run(config, snapshot, Store(store), workers or Engine(), lambda *_: None)
        given = {"ingest": {"path": str(place), "digest": "given", "counts": {}}}
        opened = replace(opened, key=key, given=given, purpose=purpose)
        made = {name: pipeline.execute(name, opened)["path"] for name in ("clustering", "homogenization")}
        labels = np.load(f"{made['clustering']}/labels.npy")
        run.file = Path(made["homogenization"]) / "groups.parquet"
        coding = profiles.Coding.of(config)
        table = np.full(matrix.shape, np.nan)
        for block in profiles.blocks(run.file, coding.dtype):
            columns = (
                np.tile(np.arange(matrix.shape[1]), len(block.sizes)) if block.items is None else block.items
            )
            table[np.repeat(block.groups, block.lengths), columns] = coding.values(block.codes)
            assert (block.sizes == 1).all()
        return table[labels]

    return run


def z_of(matrix, filled=False):
    """z-scores by the definition, a person at a time; NaN where not rated (0 where filled)."""
    dense = matrix.toarray().astype(float)
    table = np.full(dense.shape, 0.0 if filled else np.nan)
    for person, row in enumerate(dense):
        rated = row > 0
        whole = np.where(rated, row, row[rated].mean()) if filled else row[rated]
        spread = whole.std()
        table[person, rated] = (row[rated] - row[rated].mean()) / spread if spread > 0 else 0
    return table


@pytest.mark.parametrize(
    ("noise", "shape"), [("gaussian", ("norm", (0, 0.8))), ("uniform", ("uniform", (-0.8, 1.6)))]
)
@pytest.mark.parametrize("entries", ["rated", "all"])
def test_published_are_the_z_scores_and_noise_of_the_asked_amount(
    disguise, taste_matrix, entries, noise, shape
):
    matrix = taste_matrix(users=150, items=60)
    table = disguise(matrix, perturbation={"entries": entries, "noise": noise, "amount": 0.8})
    added = table - z_of(matrix, filled=entries == "all")
    there = np.ones(matrix.shape, bool) if entries == "all" else matrix.toarray() > 0
    assert (np.isnan(table) == ~there).all()
    assert kstest(added[there], *shape).pvalue > 0.001


def test_everybody_draws_an_own_amount_below_the_bound(disguise, taste_matrix):
    matrix = taste_matrix(users=300, items=200, share=1.0)
    table = disguise(matrix, perturbation={"flexible": True, "amount": 2.0})
    amounts = (table - z_of(matrix)).std(axis=1)
    assert kstest(amounts, "uniform", (0, 2.0)).pvalue > 0.001
    bounded = disguise(matrix, perturbation={"flexible": True, "amount": 2.0, "noise": "uniform"})
    assert np.abs(bounded - z_of(matrix)).max() <= 2.0 + 1e-6


def test_who_gives_equal_ratings_publishes_nothing_but_noise(disguise):
    matrix = sp.csr_array(np.tile(np.float32(4), (400, 5)))
    table = disguise(matrix)
    assert kstest(table.ravel(), "norm").pvalue > 0.001


@pytest.mark.parametrize("clip", [True, False])
def test_gna_is_noise_in_units_of_the_items_deviation_around_the_filled_matrix(disguise, taste_matrix, clip):
    matrix = taste_matrix(users=400, items=30)
    table = disguise(matrix, perturbation={"scheme": "gna", "amount": 0.5, "clip": clip})
    dense = matrix.toarray()
    filled = np.where(dense > 0, dense, 3.0).astype(float)
    added = (table - filled) / filled.std(axis=0)
    if clip:
        assert table.min() >= 1
        assert table.max() <= 5
        assert np.abs(table * 10 - np.rint(table * 10)).max() < 1e-4  # rounded to 0.1
    else:
        assert table.max() > 5
        assert (added.std(axis=0) >= 0.5 * 0.88).all()
        assert 0.5 <= added.std() <= 0.5 * 2 ** (1 / 8)  # deviations go up in steps
    inside = np.abs(filled - 3) < 1
    assert abs(added[inside].mean()) < 0.02


def test_jesters_scale_is_filled_with_its_own_centre(disguise):
    matrix = sp.csr_array((np.array([9.5], np.float32), [0], [0, 1, 1]), shape=(2, 2))
    source = {"format": "csv", "path": "-", "scale": [-10, 10]}
    table = disguise(matrix, source=source, perturbation={"scheme": "gna", "amount": 1e-6, "clip": False})
    assert table == pytest.approx(np.array([[9.5, 0], [0, 0]]), abs=1e-4)


@pytest.mark.parametrize("setting", EVERY_SETTING)
def test_the_same_people_and_ratings_have_the_same_records_in_every_snapshot_and_release(
    disguise, taste_matrix, setting
):
    matrix = taste_matrix(users=40, items=30)
    chosen = {"perturbation": EVERY_SETTING[setting], "series": {"population": "p"}}
    first = disguise(matrix, **chosen)
    later = disguise(matrix, snapshot=LATER, release={"name": "other"}, **chosen)
    np.testing.assert_array_equal(later, first)


@pytest.mark.parametrize("setting", EVERY_SETTING)
def test_without_the_secret_or_for_another_population_the_noise_is_another(disguise, taste_matrix, setting):
    matrix = taste_matrix(users=40, items=30)
    chosen = EVERY_SETTING[setting]
    first = disguise(matrix, perturbation=chosen)
    others = [
        disguise(matrix, perturbation=chosen, key=OwnerKey(b"x" * 32)),
        disguise(matrix, perturbation=chosen, series={"population": "others"}),
        disguise(matrix, perturbation=chosen, purpose="shadow"),
    ]
    held = ~np.isnan(first)
    most = 0.5 if chosen.get("scheme") == "gna" else 0.0  # rounded values may agree by chance
    assert all((other[held] == first[held]).mean() <= most for other in others)


@pytest.mark.parametrize("setting", EVERY_SETTING)
def test_who_changed_one_rating_is_published_anew_in_every_cell_and_nobody_else_is(
    disguise, taste_matrix, setting
):
    """With the old noise the difference of two snapshots would be that of two z-scores: the ratings, up to a line."""
    matrix = taste_matrix(users=300, items=30)
    changed = matrix.copy()
    place = changed.indptr[7]
    changed.data[place] = 1 if changed.data[place] > 2 else 5
    first, second = (disguise(m, perturbation=EVERY_SETTING[setting]) for m in (matrix, changed))
    held = ~np.isnan(first)
    same = (first == second) | ~held
    rest = np.delete(np.arange(300), 7)
    columns = np.flatnonzero(same[rest].all(axis=0))
    assert (
        len(columns) >= 29
    )  # of GNA the item's deviation may have reached its next step: then all its noise is new
    most = 0.5 if EVERY_SETTING[setting].get("scheme") == "gna" else 0.0
    assert (first[7] == second[7])[held[7]].mean() <= most


def test_differencing_two_snapshots_tells_no_rating(disguise, taste_matrix):
    """The attack in full: sort the differences of a changed person's values; with kept noise they fall into levels."""
    matrix = taste_matrix(users=30, items=200, share=0.9)
    changed = matrix.copy()
    changed.data[changed.indptr[4]] = 6 - changed.data[changed.indptr[4]]
    before, after = (disguise(m, perturbation={"amount": 5.0}) for m in (matrix, changed))
    row = slice(matrix.indptr[4] + 1, matrix.indptr[5])
    difference = (after - before)[4][matrix.indices[row]]
    assert abs(np.corrcoef(difference, matrix.data[row])[0, 1]) < 0.25


def test_a_grown_catalogue_redraws_what_is_filled_up_to_it_and_nothing_else(disguise, taste_matrix):
    matrix = taste_matrix(users=30, items=20)
    names = [f"i{n:04}" for n in range(20)]
    grown = sp.csr_array(sp.hstack([sp.csr_array((30, 1), dtype=np.float32), matrix]))
    for setting, chosen in EVERY_SETTING.items():
        before = disguise(matrix, perturbation=chosen)
        after = disguise(grown, items=["a new one", *names], perturbation=chosen)[:, 1:]
        held = ~np.isnan(before)
        same = (before == after)[held].mean()
        assert same == (0.0 if setting.startswith("all") else 1.0), setting


def test_a_newcomer_changes_nobody_elses_record(disguise, taste_matrix):
    matrix = taste_matrix(users=30, items=20)
    names = [f"person {n:04}" for n in range(30)]
    more = sp.csr_array(sp.vstack([matrix[3:4], matrix]))
    before = disguise(matrix)
    after = disguise(more, people=["a newcomer", *names])
    np.testing.assert_array_equal(after[1:], before)
    assert not (after[0] == before[3]).any()  # the same ratings, another person


def test_two_disguises_of_one_population_share_no_noise(disguise, taste_matrix):
    """d₁ = z + g and d₂ = z + 2g would give z away."""
    matrix = taste_matrix(users=60, items=60, share=0.8)
    z = z_of(matrix)
    held = ~np.isnan(z)
    weak = (disguise(matrix, perturbation={"amount": 1.0}) - z)[held]
    strong = (disguise(matrix, perturbation={"amount": 2.0}) - z)[held]
    filled = (disguise(matrix, perturbation={"entries": "all"}) - z_of(matrix, filled=True))[held]
    assert abs(np.corrcoef(weak, strong)[0, 1]) < 0.1
    assert abs(np.corrcoef(weak, filled)[0, 1]) < 0.1


def test_clipping_hides_the_same_values(disguise, taste_matrix):
    """The finer of two roundings of one value reveals no more than itself: here the noise must be the same."""
    matrix = taste_matrix(users=30, items=20)
    rounded, exact = (
        disguise(matrix, perturbation={"scheme": "gna", "clip": clip}) for clip in (True, False)
    )
    assert np.abs(np.clip(exact, 1, 5) - rounded).max() <= 0.0501


def test_two_ways_to_ask_for_one_disguise_share_its_noise(disguise, taste_matrix):
    """Else the mean of two releases would leave half of the noise's variance."""
    matrix = taste_matrix(users=30, items=20)
    plain, spelt_out = ({"scheme": "gna", "clip": False}, {"scheme": "gna", "clip": False, "entries": "all"})
    np.testing.assert_array_equal(
        disguise(matrix, perturbation=plain), disguise(matrix, perturbation=spelt_out)
    )


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(EVERY_SETTING)), st.integers(1, 900), st.integers(0, 99))
def test_blocks_of_any_size_give_the_same_records(disguise, taste_matrix, setting, cells, seed):
    matrix = taste_matrix(users=25, items=18, seed=seed)
    matrix.data[: matrix.indptr[2]] = 4  # two people without a deviation
    whole = disguise(matrix, perturbation=EVERY_SETTING[setting])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perturbation, "CELLS_PER_BLOCK", cells)
        np.testing.assert_array_equal(disguise(matrix, perturbation=EVERY_SETTING[setting]), whole)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_workers")
def test_workers_write_the_same_bytes(disguise, taste_matrix, monkeypatch):
    monkeypatch.setattr(perturbation, "CELLS_PER_BLOCK", 300)  # decided here, not in the workers
    matrix = taste_matrix(users=60, items=30)
    with engine(workers=2) as workers:
        for chosen in EVERY_SETTING.values():
            content = []
            for who in (None, workers):
                disguise(matrix, perturbation=chosen, workers=who)
                content.append(disguise.file.read_bytes())
            assert content[0] == content[1]


def test_people_who_rated_nothing_have_an_empty_record_or_a_filled_one(disguise):
    matrix = sp.csr_array((np.array([2, 4], np.float32), [0, 2], [0, 0, 2, 2]), shape=(3, 3))
    for chosen in EVERY_SETTING.values():
        table = disguise(matrix, perturbation=chosen)
        filled = chosen.get("scheme") == "gna" or chosen.get("entries") == "all"
        assert np.isnan(table[[0, 2]]).all() == (not filled)
        assert not np.isnan(table[1, [0, 2]]).any()


def test_no_id_and_no_name_of_the_noise_stays_behind(disguise, taste_matrix):
    disguise(taste_matrix(users=30, items=20), perturbation={"scheme": "gna"})
    place = disguise.file.parent
    assert sorted(files_below(place)) == ["groups.parquet", "step.json"]
    assert b"person" not in disguise.file.read_bytes()


def test_the_form_of_what_is_published(disguise, taste_matrix):
    matrix = taste_matrix(users=20, items=10)
    expected = {
        "rated": ("float32", None, "z-score", False),
        "all": ("float32", None, "z-score", True),
        "gna": ("uint8", 0.1, "rating", True),
        "gna unclipped": ("float32", None, "rating", True),
    }
    for setting, form in expected.items():
        coding = profiles.Coding.of(described(perturbation=EVERY_SETTING[setting]))
        disguise(matrix, perturbation=EVERY_SETTING[setting])
        dense = pq.read_table(disguise.file).column("items").null_count == 20
        assert (coding.encoding, coding.step, coding.unit, dense) == form


def test_it_has_the_steps_it_needs():
    config = described()
    assert list(methods.data_steps(config)) == ["ingest", "clustering", "homogenization"]
    assert methods.least_size(config) == 1


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"scheme": "gna", "noise": "uniform"}, "perturbation: noise: scheme 'gna' is Gaussian"),
        ({"scheme": "gna", "flexible": True}, "perturbation: flexible: scheme 'gna' has one amount"),
        ({"scheme": "gna", "entries": "rated"}, "perturbation: entries: scheme 'gna' disguises every item"),
        ({"clip": False}, "perturbation: clip: z-scores have no scale"),
        ({"amount": 0.0}, "perturbation.amount"),
        ({"amount": 1e9}, "perturbation.amount"),
        ({"sigma": 1.0}, "perturbation.sigma: unknown key"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(chosen, words):
    with pytest.raises(UsageError, match=words):
        described(perturbation=chosen)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["rated", "all", "gna", "gna unclipped"])
def test_a_run_ends_in_a_refusal_that_says_everything(tmp_path, capsys, monkeypatch, setting):
    """Nobody hides in these records: the gate must refuse them, with all figures, and nothing is published."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"k" * 32)
    secret.chmod(0o600)
    monkeypatch.setenv("MURMUR_SECRET_FILE", str(secret))
    chosen = "".join(f"{key} = {json.dumps(value)}\n" for key, value in EVERY_SETTING[setting].items())
    config = tmp_path / "films.toml"
    config.write_text(
        "[release]\nname = 'films'\n[source]\nformat = 'synthetic'\n"
        "[source.synthetic]\nusers = 120\nitems = 40\nratings_per_user = 15.0\n"
        f"[privacy]\nmethod = 'perturbation'\n[perturbation]\n{chosen}"
    )
    code = main(["run", str(config), "--snapshot", SNAPSHOT.isoformat(), "--store", str(tmp_path), "--json"])
    answer = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)  # no NaN, no infinity
    assert (code, answer["status"]) == (3, "refused")
    assert answer["checks"]
    assert all(value is not None for value in answer["utility"].values())
    assert answer["utility"]["null_share"] == 0
    assert answer["counts"]["groups"] == answer["counts"]["users"]
    assert not (tmp_path / "published").exists()
    candidate = tmp_path / "private" / "films" / SNAPSHOT.isoformat() / "work" / "validate" / "candidate"
    readme = (candidate / "README.md").read_text()
    assert "$" not in readme
    assert "No record is shared with" in readme
    assert ("z-scores, not ratings" in readme) == ("scheme" not in EVERY_SETTING[setting])
    snippet = re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]
    shown: dict = {}
    monkeypatch.chdir(candidate)
    exec(snippet, shown)
    [values] = pq.read_table(candidate / "groups.parquet").slice(0, 1).column("ratings").to_pylist()
    assert (
        len(shown["profile"](shown["first"]))
        == len(values) // np.dtype(shown["manifest"]["rating_encoding"]).itemsize
    )
