"""Test what helps a newcomer: bare `murmur`, a line on each attack, completion scripts, `murmur open`."""

import json
import shutil
import subprocess
import webbrowser

import pytest

from tasks.cli import main
from tasks.cli._completion_scripts import script
from tasks.cli._main import find_commands
from tasks.config.gate import check_names, check_summaries
from tasks.store import write_json


def test_bare_murmur_shows_three_commands(capsys):
    assert main([]) == 0
    out, err = capsys.readouterr()
    for command in ("murmur attack", "murmur init", "murmur run"):
        assert f"\n  {command}" in out
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80


def test_the_help_of_attack_has_a_line_on_each(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main(["attack", "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    for name in check_names(("attacks",)):
        assert f"\n  {name} " in out
    assert "Infer whether a person is in the data at all" in out
    assert max(map(len, out.splitlines())) <= 80


def test_summaries_are_sentences_without_citations():
    summaries = check_summaries()
    assert list(summaries) == check_names()
    for name, words in summaries.items():
        assert words[0].isupper(), name
        assert "[" not in words, name
        assert "docs/" not in words, name
        assert not words.endswith("."), name
    assert summaries["sybil"] == "Open a rare item by rating it from made-up accounts"


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", 'source {file}; COMP_WORDS=({words}); COMP_CWORD={last}; _murmur; printf "%s\\n" "${{COMPREPLY[@]}}"'),
        ("fish", 'source {file}; complete -C "{joined}"'),
    ],
)  # fmt: skip
def test_shells_complete_commands_options_and_values(shell, line, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "completion"
    file.write_text(script(shell))

    def completed(*words):
        asked = line.format(
            file=file, words=" ".join(f"'{w}'" for w in words), last=len(words) - 1, joined=" ".join(words)
        )
        done = subprocess.run([shell, "-c", asked], capture_output=True, text=True, cwd=tmp_path, timeout=60)
        return [one.partition("\t")[0] for one in done.stdout.splitlines() if one]

    assert completed("murmur", "ver") == ["verify"]
    assert set(completed("murmur", "run", "--s")) == {"--snapshot", "--store"}
    assert completed("murmur", "attack", "--format", "je") == ["jester"]
    assert "scoreboard-rh" in completed("murmur", "attack", "score")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_read_the_script(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "completion"
    file.write_text(script(shell))
    assert subprocess.run([shell, "-n", str(file)], capture_output=True, timeout=60).stderr == b""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_has_every_command_and_the_command_prints_it(shell, capsys):
    text = script(shell)
    assert [name for name in find_commands() if name not in text] == []
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == text


@pytest.fixture
def release(tmp_path):
    place = tmp_path / "published"
    place.mkdir()
    (place / "report.html").write_text("<p>")
    return place


def test_the_report_is_opened(release, monkeypatch, capsys):
    opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or True)
    assert main(["open", str(release), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "opened"
    assert opened == [(release / "report.html").as_uri()]


def test_without_a_browser_the_path_is_printed(release, monkeypatch, capsys):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tasks.cli.open.sys.platform", "linux")
    assert main(["open", str(release)]) == 0
    assert capsys.readouterr().out == f"{release / 'report.html'}\n"


def test_what_has_no_report_is_refused(release, tmp_path, capsys):
    (release / "report.html").unlink()
    assert main(["open", str(release)]) == 2
    assert "there is no report here" in capsys.readouterr().err
    write_json(release / "tombstone.json", {"withdrawn_at": "2026-01-01T00:00:00", "reason": "an error"})
    assert main(["open", str(release)]) == 2
    assert "was withdrawn on 2026-01-01: an error" in capsys.readouterr().err
    assert main(["open", str(tmp_path / "nowhere")]) == 2
