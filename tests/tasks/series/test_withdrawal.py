"""Test that a withdrawn release leaves a tombstone alone, still counts, and that a crash is completed."""

import stat

import pytest

from tasks.cli._main import main
from tasks.data.retention import sweep
from tasks.errors import UsageError
from tasks.series import tombstones, withdrawal
from tasks.series.withdrawal import withdraw
from tasks.store import read_json
from tests.tasks.series.small_series import NAME, POPULATION, SmallSeries, people


@pytest.fixture
def series(tmp_path):
    made = SmallSeries(tmp_path)
    made.publish("2026-01-01", people(0, 9))
    made.publish("2026-02-01", people(9, 6))
    return made


def take_back(series, reason="wrong scale", snapshot="2026-01-01"):
    return withdraw(series.store, POPULATION, NAME, snapshot, reason)


def test_a_tombstone_alone_takes_the_place_of_the_release(series):
    before = {file.name: file.read_bytes() for file in series.public("2026-01-01").iterdir()}
    answer = take_back(series)
    assert [file.name for file in series.public("2026-01-01").iterdir()] == ["tombstone.json"]
    stone = read_json(series.public("2026-01-01") / "tombstone.json")
    assert stone.keys() == {"release", "snapshot", "directory", "reason", "withdrawn_at", "manifest"}
    assert (stone["directory"], stone["reason"]) == ("2026-01-01", "wrong scale")
    moved = series.private("2026-01-01") / "withdrawn"
    assert {file.name: file.read_bytes() for file in moved.iterdir()} == before
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in moved.iterdir())
    assert stat.S_IMODE(moved.stat().st_mode) == 0o700
    record = read_json(series.private("2026-01-01") / "withdrawal.json")
    assert record["event"] == answer["event"]
    assert answer["event"]["asset"] == f"murmur://{NAME}"
    assert answer["event"]["extra"]["release_digest"] == stone["manifest"]


def test_it_still_counts(series):
    take_back(series)
    with series.ledger() as ledger:
        assert [release.state for release in ledger.releases()] == ["withdrawn", "published"]
        assert len(ledger.people()[0]) == 15
        assert len(ledger.groups()) == 5
        assert ledger.problems(series.store) == []
    series.publish("2026-03-01", [])
    with series.ledger() as ledger:
        assert len(ledger.listed(3)) == 5
        assert ledger.problems(series.store) == []


def test_a_second_time_changes_nothing(series):
    first = take_back(series)
    second = take_back(series, "another reason")
    assert second["status"] == "withdrawn already"
    assert (second["reason"], second["withdrawn_at"]) == (first["reason"], first["withdrawn_at"])


@pytest.mark.parametrize("point", ["entered", "tombstone", "moved a file"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_crash_is_completed_by_the_next_call(series, monkeypatch, point, times):
    seen = []

    def crash(name):
        seen.append(name)
        if seen.count(point) == times:
            raise KeyboardInterrupt

    for module in (tombstones, withdrawal):
        monkeypatch.setattr(module, "crash_point", crash)
    if point == "moved a file" or times == 1:
        with pytest.raises(KeyboardInterrupt):
            take_back(series)
    else:
        take_back(series)
    monkeypatch.undo()
    take_back(series, "later")
    assert [file.name for file in series.public("2026-01-01").iterdir()] == ["tombstone.json"]
    assert read_json(series.public("2026-01-01") / "tombstone.json")["reason"] == "wrong scale"
    with series.ledger() as ledger:
        assert ledger.problems(series.store) == []


@pytest.mark.parametrize("reason", ["", "  ", "x" * 201, "two\nlines", tombstones.ERASURE])
def test_a_reason_is_one_short_line(series, reason):
    with pytest.raises(UsageError):
        take_back(series, reason)
    assert (series.public("2026-01-01") / "manifest.json").exists()


@pytest.mark.parametrize("reason", ["because of canary-0003.", "(canary-0003)", "about CANARY-0003"])
def test_a_reason_with_a_source_id_is_refused_without_quoting_it(series, reason):
    with pytest.raises(UsageError) as problem:
        take_back(series, reason)
    assert "canary" not in str(problem.value).lower()


def test_what_was_never_published_cannot_be_withdrawn(series):
    with pytest.raises(UsageError, match="never published"):
        take_back(series, snapshot="2025-01-01")
    with pytest.raises(UsageError, match="never published"):
        withdraw(series.store, "others", NAME, "2026-01-01", "why")
    assert not (series.store.root / "private" / "ledger" / "others.key").exists()


def test_readers_say_that_it_was_withdrawn(series, capsys, tmp_path):
    take_back(series)
    place = str(series.public("2026-01-01"))
    for arguments in (
        ["verify", place],
        ["expand", place, "--to", "csv", str(tmp_path / "out.csv")],
        ["audit", place, "--private", str(tmp_path), "--source", "x", "--format", "csv"],
    ):
        assert main(arguments) == 2
        assert "wrong scale" in capsys.readouterr().err


def test_its_intermediates_go_like_those_of_any_release(series):
    series.add_work("2026-01-01", people(0, 9))
    take_back(series)
    assert sweep(series.store, NAME, 0) == [series.private("2026-01-01") / "work"]


def test_the_command_reads_the_release_file(series, tmp_path, capsys):
    config = write_config(tmp_path)
    common = [str(config), "--store", str(series.store.root), "--json"]
    assert main(["withdraw", *common, "--snapshot", "2026-01-01", "--reason", "wrong scale"]) == 0
    printed = capsys.readouterr()
    assert '"status": "withdrawn"' in printed.out
    assert '"event_sent": false' in printed.out
    assert (
        f"no asset event was sent: Airflow is not configured here; trigger withdraw_{NAME} to announce it: "
        f"airflow dags trigger withdraw_{NAME} --conf "
        """'{"snapshot": "2026-01-01", "reason": "wrong scale"}'\n"""
    ) in printed.err
    assert main(["withdraw", *common, "--snapshot", "2024-01-01", "--reason", "wrong scale"]) == 2


def write_config(directory):
    path = directory / "films.toml"
    path.write_text(
        f'[release]\nname = "{NAME}"\n[source]\nformat = "csv"\npath = "{directory}/{{snapshot}}.csv"\n'
        f'scale = [1.0, 5.0]\n[privacy]\nk = 3\n[series]\npopulation = "{POPULATION}"\n'
    )
    return path
