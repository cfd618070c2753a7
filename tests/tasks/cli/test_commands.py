"""Test how commands are found, how start-up stays light, and how errors become messages and exit codes."""

import argparse
import errno
import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tasks.cli import _main, main
from tasks.cli._main import find_commands
from tasks.errors import MurmurError, Refused

ROOT = Path(__file__).parents[3]
COMMANDS = {
    "attack", "audit", "check", "clean", "compare", "expand", "init", "ledger", "reproduce", "restore", "run",
    "verify",
}  # fmt: skip
HEAVY = ("numpy", "dask", "distributed", "numba", "great_expectations", "pandas", "pyarrow", "scipy", "rich")


def test_every_file_is_a_command():
    assert set(find_commands()) >= COMMANDS
    for name, command in find_commands().items():
        assert command.HELP[0].islower() or command.HELP[0] == "`", name
        assert not command.HELP.endswith("."), name
        command.add_arguments(argparse.ArgumentParser())
        assert callable(command.run)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_start_up_loads_nothing_heavy(arguments):
    code = (
        "import sys\nfrom tasks.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit as end:\n"
        f"    assert not end.code\nprint('LOADED', [name for name in {HEAVY} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=120,
    )
    assert result.stdout.endswith("LOADED []\n")


def test_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"murmur {version('murmuration')}\n"


def test_it_runs_as_a_module():
    result = subprocess.run(
        [sys.executable, "-m", "tasks.cli", "fly", "--json"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert result.returncode == 2
    assert json.loads(result.stdout)["status"] == "error"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_takes_json_and_verbose(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert "--json" in shown
    assert "--verbose" in shown


@pytest.fixture
def failing(monkeypatch):
    """Make `murmur clean NAME` raise this error."""

    def fail(problem):
        def run(options):
            raise problem

        monkeypatch.setattr("tasks.cli.clean.run", run)

    return fail


@pytest.mark.parametrize(
    ("problem", "code", "shown", "where", "remedy"),
    [
        (
            MurmurError("broken", where="here", remedy="mend it"),
            1,
            "broken\n  where: here\n  to do: mend it",
            "here",
            "mend it",
        ),
        (Refused("refused", where="there"), 3, "refused\n  where: there", "there", None),
        (KeyboardInterrupt(), 1, "interrupted", None, None),
        (
            KeyError("person-001"),
            1,
            "unexpected KeyError in test_commands.py, line",
            None,
            "set MURMUR_TRACEBACK=1 to see the traceback (it may contain private data)",
        ),
    ],
)
def test_errors_become_messages_and_exit_codes(failing, capsys, problem, code, shown, where, remedy):
    failing(problem)
    assert main(["clean", "x", "--json"]) == code
    out, err = capsys.readouterr()
    assert err.startswith(shown)
    assert "person-001" not in out + err
    answer = json.loads(out)
    assert answer["status"] == "error"
    assert shown.startswith(answer["error"]["what"]) or answer["error"]["what"].startswith(shown)
    assert (answer["error"]["where"], answer["error"]["remedy"]) == (where, remedy)
    assert main(["clean", "x"]) == code
    assert capsys.readouterr().out == ""  # without --json an error is on stderr alone


def test_a_file_that_cannot_be_written_is_named(failing, capsys):
    failing(OSError(errno.EROFS, os.strerror(errno.EROFS), "/media/x/films.toml"))
    assert main(["clean", "x", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["what"] == "a file cannot be read or written: Read-only file system"
    assert error["where"] == "/media/x/films.toml"
    failing(OSError(errno.EIO, "person-001"))  # no such error: its words may be anything
    assert main(["clean", "x"]) == 1
    assert "person-001" not in capsys.readouterr().err


def test_a_full_disk_is_named_where_no_file_is(failing, capsys):
    """A write to an open file fails without a name."""
    failing(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert main(["clean", "x", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error == {
        "what": "no space left",
        "where": None,
        "remedy": "free some space, then run it again",
    }


def test_a_traceback_is_shown_on_request(failing, capsys, monkeypatch):
    monkeypatch.setenv("MURMUR_TRACEBACK", "1")
    failing(KeyError("inside"))
    assert main(["clean", "x"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_negative_scale_is_a_value():
    assert _main._join_scale(["attack", "--scale", "-10,10", "--json"]) == [
        "attack",
        "--scale=-10,10",
        "--json",
    ]


def test_sigterm_ends_with_cleaning_up():
    before = signal.getsignal(signal.SIGTERM)
    try:
        _main._exit_normally_on_sigterm()
        with pytest.raises(SystemExit) as ended:
            os.kill(os.getpid(), signal.SIGTERM)
        assert ended.value.code == 143
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


SOURCES = {
    "one item": (
        [f"u{user},i,{user % 5 + 1}" for user in range(40)],
        "the source has ratings of 1 item; at least 2 are needed",
        "check that source.columns.item names the column of items",
    ),
    "one user": (
        [f"u,i{item},{item % 5 + 1}" for item in range(40)],
        "the source has 1 user, fewer than privacy.k = 5",
        "use more data, or a smaller privacy.k",
    ),
    "too few groups": (
        [f"u{user},i{item},3" for user in range(7) for item in range(4)],
        "7 users form at most 1 group of privacy.k = 5",
        "lower privacy.l or privacy.k",
    ),
    "off the scale": (
        [f"u{user},i{item},{user % 5 + 2}" for user in range(40) for item in range(5)],
        "line 22: the rating is off the scale [1, 5]",
        "ratings of 6 were seen beside those on [1, 5]: set source.scale",
    ),
    "no rows": ([], "the source has no ratings", "check source.path"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_an_unusable_source_is_refused_in_the_owners_words(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MURMUR_WORKERS", "0")
    rows, what, remedy = SOURCES[name]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,item,rating", *rows]) + "\n")
    config = tmp_path / "films.toml"
    config.write_text(
        f'[release]\nname = "films"\n[source]\nformat = "csv"\npath = "{tmp_path}/ratings.csv"\nscale = [1, 5]\n'
    )
    code = main(
        ["run", str(config), "--snapshot", "2026-01-01", "--store", str(tmp_path / "store"), "--json"]
    )
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert code == 2
    assert what in error["what"]
    assert remedy in error["remedy"]
    assert error["what"]
    assert error["where"]
    assert not any(word in err for word in ("expect_", "Traceback", "fault of ingest"))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "there is no such file"),
        ("who,film,stars\na,b,5\n", "the columns are: who, film, stars"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused_before_anything_starts(
    made, said, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("tasks.pipeline.run", lambda *arguments, **more: pytest.fail("a step was run"))
    monkeypatch.setattr(
        "tasks.pipeline.workers_for", lambda *arguments, **more: pytest.fail("workers were started")
    )
    if made is not None:
        (tmp_path / "ratings.csv").write_text(made)
    config = tmp_path / "films.toml"
    config.write_text(
        f'[release]\nname = "films"\n[source]\nformat = "csv"\npath = "{tmp_path}/ratings.csv"\nscale = [1, 5]\n'
    )
    assert main(["run", str(config), "--snapshot", "2026-01-01", "--store", str(tmp_path / "s")]) == 2
    assert said in capsys.readouterr().err


def test_errors_are_red_on_a_terminal_only(failing, capsys, monkeypatch):
    failing(MurmurError("broken", remedy="mend it"))
    assert main(["clean", "x"]) == 1
    assert capsys.readouterr().err == "broken\n  to do: mend it\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["clean", "x"]) == 1
    assert capsys.readouterr().err == "\033[1;31mbroken\033[0m\n  to do: mend it\n"
