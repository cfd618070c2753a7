"""Test that erased people are gone from every file, and their groups from every release that is offered."""

import datetime
import json
import stat
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.find_ids import IdFinder
from checks.gate import verify
from tasks.cli._main import main
from tasks.cli._run_result import describe
from tasks.config import load
from tasks.errors import Refused
from tasks.series import erasure, pooling, private_files, tombstones
from tasks.series.entry import profile_digests
from tasks.series.erasure import erase, preview, resume
from tasks.series.publication import exclusive
from tasks.series.withdrawal import withdraw
from tasks.store import read_json, write_json
from tests.tasks.series.small_series import ITEMS, NAME, POPULATION, K, SmallSeries, people
from tests.tasks.series.test_withdrawal import write_config

FIRST, SECOND = "2026-01-01", "2026-02-01"
VICTIM = "canary-0004"  # in the second group of the first release


@pytest.fixture
def series(tmp_path):
    made = SmallSeries(tmp_path)
    made.publish(FIRST, people(0, 9))
    made.publish(SECOND, people(9, 6))
    made.add_work(SECOND, people(0, 15))
    plant(made)
    return made


def plant(series):
    """Put the victim's id where a program that is not careful might leave it."""
    place = series.private(FIRST)
    write_json(place / "notes.json", {"seen": [VICTIM, "else"], VICTIM: 1, "count": 4})
    (place / "step.log").write_text(f"read {VICTIM}, 3 rows\nread canary-00041\n")
    np.save(place / "names.npy", np.array([VICTIM, "x"]))
    np.save(place / "figures.npy", np.arange(3))
    rows = pq.read_table(place / "membership.parquet")
    pq.write_table(rows, place / "added.parquet")
    (place / ".membership.parquet.a1b2c3").write_bytes((place / "membership.parquet").read_bytes())
    (place / "state.bin").write_bytes(b"\0\1" + VICTIM.encode() + b"\0")


def apply(series, *ids, **more):
    return erase(series.store, POPULATION, NAME, series.maker(failed_checks), ids=set(ids), **more)


def failed_checks(candidate):
    return verify(candidate).failed


def places(series, *ids):
    return list(IdFinder(ids).below(series.store.root))


def test_canaries_are_found_before_and_nowhere_after(series):
    before = places(series, VICTIM)
    names = (
        "membership.parquet",
        "added.parquet",
        "users.parquet",
        "notes.json",
        "step.log",
        "names.npy",
        "state.bin",
        ".membership.parquet.a1b2c3",
        "shadow-release/membership.parquet",
    )
    assert [name for name in names if not any(name in place for place in before)] == []
    apply(series, VICTIM)
    assert places(series, VICTIM) == []
    others = ["canary-0003", "canary-0014"]
    assert places(series, *others) != []  # nobody else is
    assert (series.private(FIRST) / "figures.npy").exists()
    assert "canary-00041" in (series.private(FIRST) / "step.log").read_text()
    assert read_json(series.private(FIRST) / "notes.json") == {
        "seen": ["erased", "else"],
        "erased": 1,
        "count": 4,
    }


def test_membership_keeps_pseudonym_and_group_under_a_random_name(series):
    path = series.private(FIRST) / "membership.parquet"
    before = pq.read_table(path)
    mtime = path.stat().st_mtime_ns
    apply(series, VICTIM)
    after = pq.read_table(path)
    assert after.schema == before.schema
    assert after.drop(["user"]) == before.drop(["user"])
    changed = [
        (old, new)
        for old, new in zip(before.column("user").to_pylist(), after.column("user").to_pylist(), strict=True)
        if old != new
    ]
    [(old, new)] = changed
    assert old == VICTIM
    assert new.startswith("erased:")
    assert len(new) == len("erased:") + 32
    assert path.stat().st_mtime_ns == mtime
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    other = pq.read_table(series.private(SECOND) / "membership.parquet").column("user").to_pylist()
    assert new in other  # the judge must see that one person was in both


def test_the_shadow_release_no_longer_says_what_the_person_rated(series):
    shadow = series.private(FIRST) / "utility" / "shadow-release"
    owner = pq.read_table(shadow / "membership.parquet").to_pylist()
    [pseudonym] = [row["pseudonym"] for row in owner if row["user"] == VICTIM]
    apply(series, VICTIM)
    left = pq.read_table(shadow / "held_out.parquet").column("pseudonym").to_pylist()
    assert pseudonym not in left
    assert len(left) == 8


def test_each_release_that_offered_the_group_is_repaired(series):
    old = {one: profiles_of(series.public(one)) for one in (FIRST, SECOND)}
    certificate = apply(series, VICTIM)
    for directory, groups in ((FIRST, 3), (SECOND, 5)):
        assert [file.name for file in series.public(directory).iterdir()] == ["tombstone.json"]
        repaired = series.public(f"{directory}-r1")
        assert verify(repaired).passed
        assert len(old[directory] - profiles_of(repaired)) == 1
        assert profiles_of(repaired) < old[directory]
        manifest = read_json(repaired / "manifest.json")
        assert manifest["counts"]["groups"] == groups - 1
        assert manifest["counts"]["users"] == K * (groups - 1)
        assert manifest["revision"]["number"] == 1
        assert manifest["revision"]["groups_left_out"] == 1
        assert "Repaired release" in (repaired / "README.md").read_text()
        assert "Repaired release" in (repaired / "report.html").read_text()
        described = read_json(repaired / "croissant.json")
        assert described["name"] == f"films-{directory}-r1"
        assert {one["name"]: one["sha256"] for one in described["distribution"]} == {
            name: manifest["files"][name] for name in ("groups.parquet", "members.parquet", "items.parquet")
        }
        owner = pq.read_table(series.private(f"{directory}-r1") / "membership.parquet")
        assert sorted(owner.column("pseudonym").to_pylist()) == (
            pq.read_table(repaired / "members.parquet").column("user").to_pylist()
        )
        before = pq.read_table(series.private(directory) / "membership.parquet").column("pseudonym")
        assert not set(before.to_pylist()) & set(owner.column("pseudonym").to_pylist())
    assert [one["repaired"] for one in certificate["releases"]] == [f"{FIRST}-r1", f"{SECOND}-r1"]
    with series.ledger() as ledger:
        assert ledger.problems(series.store) == []
        assert ledger.find(NAME, FIRST).directory == f"{FIRST}-r1"


def profiles_of(public):
    return set(profile_digests(public / "groups.parquet", ITEMS))


def test_nothing_of_the_person_returns(series):
    apply(series, VICTIM)
    series.publish("2026-03-01", [])
    with series.ledger() as ledger:
        assert ledger.tokens([VICTIM])[0] in ledger.blocked()
        assert len(ledger.listed(ledger.find(NAME, "2026-03-01").id)) == 4
        assert ledger.problems(series.store) == []
    assert places(series, VICTIM) == []


def test_the_certificate_says_what_was_done_and_names_nobody(series):
    certificate = apply(series, VICTIM, "canary-9999")
    path = series.store.root / "private" / NAME / "erasures" / "1.json"
    assert certificate["path"] == str(path)
    told = read_json(path)
    assert (told["people"], told["released"], told["never_released"]) == (2, 1, 1)
    assert told["survivors"] == 2
    assert len(told["groups_withdrawn"]) == 1
    assert "stays public" in told["residual"]
    assert "canary" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (path.parent / "pending.json").exists()
    assert apply(series, "canary-0010")["certificate"] == 2


def test_a_person_who_was_never_released_is_blocked_and_removed_from_files(series):
    series.add_work(FIRST, ["canary-0777"])
    certificate = apply(series, "canary-0777")
    assert (certificate["groups_withdrawn"], certificate["releases"]) == ([], [])
    assert (series.public(FIRST) / "manifest.json").exists()
    assert places(series, "canary-0777") == []
    with series.ledger() as ledger:
        assert ledger.tokens(["canary-0777"])[0] in ledger.blocked()


def test_a_second_time_finds_nothing_to_withdraw(series):
    apply(series, VICTIM)
    again = apply(series, VICTIM)
    assert (again["erased_before"], again["releases"]) == (1, [])
    assert not series.public(f"{FIRST}-r2").exists()


def test_two_people_of_one_batch_need_one_revision(series):
    apply(series, VICTIM, "canary-0000")
    assert not series.public(f"{FIRST}-r2").exists()
    assert series.public(f"{SECOND}-r1").exists()
    with series.ledger() as ledger:
        assert len(ledger.groups()) == 3
        assert ledger.problems(series.store) == []


def test_a_release_that_would_fail_its_checks_is_only_withdrawn(series):
    certificate = apply(series, VICTIM, "canary-0000")  # one group is left: fewer than l = 2
    first, second = certificate["releases"]
    assert first["repaired"] is None
    assert "diversity" in first["why_not"]
    assert second["repaired"] == f"{SECOND}-r1"
    assert not series.private(f"{FIRST}-r1").exists()


def test_a_second_erasure_repairs_the_repaired_release(series):
    apply(series, VICTIM)
    apply(series, "canary-0010")
    assert [file.name for file in series.public(f"{SECOND}-r1").iterdir()] == ["tombstone.json"]
    assert verify(series.public(f"{SECOND}-r2")).passed
    assert (series.public(f"{FIRST}-r1") / "manifest.json").exists()
    with series.ledger() as ledger:
        assert ledger.problems(series.store) == []


def test_a_release_that_its_owner_withdrew_is_not_repaired(series):
    withdraw(series.store, POPULATION, NAME, FIRST, "wrong scale")
    apply(series, VICTIM)
    assert not series.public(f"{FIRST}-r1").exists()
    assert places(series, VICTIM) == []


POINTS = [
    "recorded",
    "erased from the ledger",
    "withdrawn",
    "tombstone",
    "moved a file",
    "repaired",
    "cleaned",
]


@pytest.mark.parametrize(
    ("point", "told_again"), [*((point, False) for point in POINTS), ("recorded", True), ("certified", True)]
)
def test_a_crash_is_completed_with_or_without_the_id(series, monkeypatch, point, told_again):
    def crash(name):
        if name == point:
            raise KeyboardInterrupt

    for module in (erasure, tombstones):
        monkeypatch.setattr(module, "crash_point", crash)
    with pytest.raises(KeyboardInterrupt):
        apply(series, VICTIM)
    monkeypatch.undo()
    if told_again:
        apply(series, VICTIM)
    else:
        with exclusive(series.store, POPULATION) as ledger:
            resume(ledger, series.store, series.maker(failed_checks))
    assert places(series, VICTIM) == []
    certificate = read_json(series.store.root / "private" / NAME / "erasures" / "1.json")
    assert [one["repaired"] for one in certificate["releases"]] == [f"{FIRST}-r1", f"{SECOND}-r1"]
    for directory in (FIRST, SECOND):
        assert verify(series.public(f"{directory}-r1")).passed
        assert not series.public(f"{directory}-r2").exists()
    with series.ledger() as ledger:
        assert ledger.problems(series.store) == []


def test_the_preview_changes_nothing_and_counts(series):
    before = places(series, VICTIM)
    with series.ledger() as ledger:
        answer = preview(ledger, ledger.tokens([VICTIM]), K)
    assert (answer["released"], answer["groups_withdrawn"], answer["survivors"]) == (1, 1, 2)
    assert [one["directory"] for one in answer["releases"]] == [FIRST, SECOND]
    assert answer["releases"][1]["people_withdrawn"] == 3
    assert answer["waiting"] == {
        "withdrawn_groups_that_can_be_pooled": 1,
        "further_groups_needed": 2,
        "survivors_who_can_be_pooled": 2,
        "survivors_who_never_can": 0,
    }
    assert answer["cost"] == {"people_released_now": 15, "people_no_longer_released": 3, "share": 0.2}
    assert places(series, VICTIM) == before


def test_survivors_of_three_erasures_are_released_again_in_transversals(series):
    apply(series, "canary-0000", VICTIM, "canary-0010")
    with series.ledger() as ledger:
        everybody = dict(zip(ledger.tokens(people(0, 15)), people(0, 15), strict=True))
        [pool] = pooling.plan_pools(ledger, set(everybody), K, np.random.default_rng(0))
    assert len(pool.members) == 2
    series.publish("2026-03-01", [everybody[one] for members in pool.members for one in members], pool.number)
    with series.ledger() as ledger:
        assert ledger.problems(series.store) == []
        assert pooling.plan_pools(ledger, set(everybody), K, np.random.default_rng(0)) == []
    # A pooled person leaves: the companions are never pooled again.
    left = everybody[pool.members[0][0]]
    apply(series, left)
    with series.ledger() as ledger:
        waiting = preview(ledger, [], K)["waiting"]
        assert waiting["survivors_who_never_can"] == 2
        assert ledger.problems(series.store) == []
    assert places(series, left) == []


def test_other_populations_keep_their_people(series):
    other = series.store.root / "private" / "others" / FIRST
    other.mkdir(parents=True)
    write_json(other / "notes.json", [VICTIM])
    apply(series, VICTIM)
    assert read_json(other / "notes.json") == [VICTIM]


def test_half_written_tables_do_not_stop_the_search(series):
    (series.private(FIRST) / "broken.parquet").write_bytes(b"PAR1 half")
    (series.private(FIRST) / "broken.npz").write_bytes(b"PK half")
    (series.private(FIRST) / "empty.json").write_bytes(b"")
    apply(series, VICTIM)
    assert private_files.forget([series.private(FIRST)], {VICTIM: "erased:0"}) == private_files.Cleaned(0, 0)


def run(series, tmp_path, capsys, *arguments):
    config = write_config(tmp_path)
    code = main(["erase", str(config), "--store", str(series.store.root), "--json", *arguments])
    out = capsys.readouterr()
    assert "canary" not in out.out + out.err
    return code, json.loads(out.out)


def test_the_command_plans_then_applies(series, tmp_path, capsys):
    code, answer = run(series, tmp_path, capsys, "--user", VICTIM)
    assert (code, answer["status"], answer["groups_withdrawn"]) == (0, "planned", 1)
    assert (series.public(FIRST) / "manifest.json").exists()
    code, answer = run(series, tmp_path, capsys, "--user", VICTIM, "--apply")
    assert (code, answer["status"]) == (0, "erased")
    assert answer["certificate"].endswith("erasures/1.json")
    assert places(series, VICTIM) == []


def test_the_command_says_that_pools_are_off(series, tmp_path, capsys):
    waiting = run(series, tmp_path, capsys, "--user", VICTIM)[1]["waiting"]
    assert waiting == {
        "pools": "off (series.pool_survivors = false): survivors stay unreleased",
        "survivors_who_stay_unreleased": 2,
    }
    config = write_config(tmp_path)
    config.write_text(config.read_text() + "pool_survivors = true\n")
    assert main(["erase", str(config), "--store", str(series.store.root), "--json", "--user", VICTIM]) == 0
    assert json.loads(capsys.readouterr().out)["waiting"]["survivors_who_can_be_pooled"] == 2


def test_the_command_says_that_somebody_was_erased_before(series, tmp_path, capsys, monkeypatch):
    assert run(series, tmp_path, capsys, "--user", VICTIM)[1]["next"] == "run it again with --apply"

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(erasure, "repair_damaged", crash)
    with pytest.raises(KeyboardInterrupt):
        apply(series, VICTIM)
    monkeypatch.undo()
    assert "interrupted" in run(series, tmp_path, capsys, "--user", VICTIM)[1]["next"]
    apply(series, VICTIM)
    answer = run(series, tmp_path, capsys, "--user", VICTIM)[1]
    assert (answer["erased_before"], answer["never_released"], "note" in answer) == (1, 0, False)
    assert answer["next"] == "nothing: everybody who is named was erased before"


def test_the_command_says_that_somebody_is_unknown(series, tmp_path, capsys):
    (tmp_path / "2026-03-01.csv").write_text("user,item,rating,timestamp\ncanary-waits,i0,3,0\n")
    file = tmp_path / "ids"
    file.write_text(f"{VICTIM}\ncanary-waits\ncanary-misspelt\n")
    answer = run(series, tmp_path, capsys, "--users-file", str(file))[1]
    assert (answer["released"], answer["never_released"]) == (1, 2)
    assert answer["note"].startswith("2 of 3 people named were never released under this population")
    assert "was not examined" in answer["note"]
    answer = run(series, tmp_path, capsys, "--users-file", str(file), "--snapshot", "2026-03-01")[1]
    assert answer["not_in_source"] == 1
    assert "1 of them are not in the source of 2026-03-01, either: check the spelling" in answer["note"]
    run(series, tmp_path, capsys, "--user", "canary-misspelt", "--apply")
    with series.ledger() as ledger:
        assert set(ledger.tokens(["canary-misspelt"])) <= ledger.blocked()


def test_a_rerun_names_the_release_that_is_offered(series, tmp_path, capsys, monkeypatch):
    run(series, tmp_path, capsys, "--user", VICTIM, "--apply")
    config = load(write_config(tmp_path))
    monkeypatch.setattr("tasks.series.repeated._require_same_state", lambda *_: None)  # there is no source
    again = [
        "run",
        str(write_config(tmp_path)),
        "--snapshot",
        FIRST,
        "--store",
        str(series.store.root),
        "--json",
    ]
    assert main(again) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["already_published"]
    assert Path(answer["published"]) == series.public(f"{FIRST}-r1")
    assert Path(answer["private"]) == series.private(f"{FIRST}-r1")
    assert Path(answer["report"]).exists()
    assert answer["checks"]
    assert answer["counts"]["groups"] == 2
    with series.ledger() as ledger:
        ledger.withdraw(ledger.find(NAME, FIRST).id, "wrong scale")
    with pytest.raises(Refused, match="withdrawn"):
        describe(config, datetime.date.fromisoformat(FIRST), series.store, None, judged=False)
    assert main(again) == 3
    assert "withdrawn" in json.loads(capsys.readouterr().out)["error"]["what"]


def test_the_command_reads_ids_from_a_file(series, tmp_path, capsys):
    file = tmp_path / "ids"
    file.write_text(f"{VICTIM}\r\ncanary-0000\n\n")
    assert run(series, tmp_path, capsys, "--users-file", str(file))[1]["people"] == 2
    file.write_text("\n")
    assert run(series, tmp_path, capsys, "--users-file", str(file))[0] == 2
    assert run(series, tmp_path, capsys, "--users-file", str(tmp_path / "none"))[0] == 2


def test_the_command_erases_everybody_who_left_the_source(series, tmp_path, capsys):
    present = [one for one in people(0, 15) if one != VICTIM]
    rows = "".join(f"{one},i0,3,0\n" for one in present)
    (tmp_path / "2026-03-01.csv").write_text(f"user,item,rating,timestamp\n{rows}")
    assert run(series, tmp_path, capsys, "--departed")[0] == 2
    day = datetime.date(2026, 3, 1).isoformat()
    code, answer = run(series, tmp_path, capsys, "--departed", "--snapshot", day, "--apply")
    assert (code, answer["people"], answer["released"]) == (0, 1, 1)
    assert places(series, VICTIM) == []
    (tmp_path / "2026-03-01.csv").write_text("user,item,rating,timestamp\nsomebody,i0,3,0\n")
    assert run(series, tmp_path, capsys, "--departed", "--snapshot", day)[0] == 2


def test_a_store_without_a_ledger_is_refused(tmp_path, capsys):
    assert run(SmallSeries(tmp_path), tmp_path, capsys, "--user", VICTIM)[0] == 2


def test_a_repaired_release_says_how_new_its_profiles_are(tmp_path):
    """The only group that was newer than the snapshot leaves with its member."""
    made = SmallSeries(tmp_path)
    made.publish(SECOND, people(0, 3))
    made.publish(FIRST, people(3, 9))
    assert read_json(made.public(FIRST) / "manifest.json")["as_of"] == SECOND
    apply(made, "canary-0001")
    repaired = read_json(made.public(f"{FIRST}-r1") / "manifest.json")
    assert (repaired["counts"]["users"], repaired["as_of"]) == (9, None)
