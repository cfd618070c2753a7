"""Write completion scripts from the tree of arguments, so that no list of commands is kept by hand.

The script holds all words: pressing Tab starts no Python.
"""

import argparse
import shlex
from dataclasses import dataclass

from tasks.cli._main import make_parser

FILES = 'COMPREPLY=($(compgen -f -- "$current"))'

ZSH_READS_BASH = """(( $+functions[compdef] )) || { autoload -U compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit"""


@dataclass(frozen=True)
class Option:
    """Represent an option: its name, its values where these are few, and whether it takes one."""

    name: str
    help: str
    values: tuple[str, ...] = ()
    takes_value: bool = False


@dataclass(frozen=True)
class Words:
    """Hold what can follow a command."""

    help: str
    options: tuple[Option, ...]
    values: tuple[str, ...]  # of positional arguments; where there are none, files


def script(shell: str) -> str:
    """Return the script for a shell."""
    commands = _commands()
    if shell == "fish":
        return _fish(commands)
    text = _bash(commands)
    return f"{ZSH_READS_BASH}\n{text}" if shell == "zsh" else text


def _commands() -> dict[str, Words]:
    parser = make_parser()
    (tree,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    helps = {one.dest: one.help or "" for one in tree._choices_actions}
    return {name: _words(helps[name], sub) for name, sub in tree.choices.items()}


def _words(text: str, parser: argparse.ArgumentParser) -> Words:
    options: list[Option] = []
    values: list[str] = []
    for action in parser._actions:
        choices = tuple(map(str, action.choices or ()))
        if not action.option_strings:
            values += choices
        else:
            takes = action.nargs != 0
            shown = (action.help or "").replace("%%", "%")
            options.append(Option(action.option_strings[-1], shown, choices, takes))
    return Words(text, tuple(options), tuple(values))


def _bash(commands: dict[str, Words]) -> str:
    names = " ".join(commands)
    cases, values = [], []
    for name, words in commands.items():
        options = " ".join(one.name for one in words.options)
        cases.append(f'    {name}) options="{options}"; values="{" ".join(words.values)}" ;;')
        for one in words.options:
            if one.takes_value:
                some = f'COMPREPLY=($(compgen -W "{" ".join(one.values)}" -- "$current"))'
                values.append(f"    {name}:{one.name}) {some if one.values else FILES}; return ;;")
    return "\n".join(
        [
            "_murmur() {",
            '  local current="${COMP_WORDS[COMP_CWORD]}" command="${COMP_WORDS[1]}" options="" values=""',
            '  local before="${COMP_WORDS[COMP_CWORD-1]}"',
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f'    COMPREPLY=($(compgen -W "{names} --help --version" -- "$current")); return',
            "  fi",
            '  case "$command:$before" in',
            *values,
            "  esac",
            '  case "$command" in',
            *cases,
            "  esac",
            '  case "$current" in',
            '    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;',
            '    *) COMPREPLY=($(compgen -W "$values" -- "$current"))',
            f'       if [ -z "$values" ]; then {FILES}; fi ;;',
            "  esac",
            "}",
            "complete -o filenames -F _murmur murmur",
            "",
        ]
    )


def _fish(commands: dict[str, Words]) -> str:
    lines = []
    for name, words in commands.items():
        lines.append(f"complete -c murmur -n __fish_use_subcommand -f -a {name} -d {_quoted(words.help)}")
        inside = f"complete -c murmur -n '__fish_seen_subcommand_from {name}'"
        if words.values:
            lines.append(f"{inside} -f -a {shlex.quote(' '.join(words.values))}")
        for one in words.options:
            follows = f" -x -a {shlex.quote(' '.join(one.values))}" if one.values else " -r"
            lines.append(
                f"{inside} -l {one.name.removeprefix('--')} -d {_quoted(one.help)}"
                + (follows if one.takes_value else "")
            )
    return "\n".join(lines) + "\n"


def _quoted(words: str) -> str:
    r"""Return words in single quotes; in fish \\ and \' are the only escapes there."""
    return "'" + words.replace("\\", "\\\\").replace("'", "\\'") + "'"
