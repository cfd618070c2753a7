"""Describe a check in words: what its attacker knows and tries, what is measured, and what the figure means.

A check declares its `About` once, in its own file; the report, the command line and the Airflow pages read it from
there. The command line reads it from the syntax tree (`tasks.config.gate.check_summaries`), so that `--help` does not
import NumPy: every argument is a keyword with a literal value.
"""

from dataclasses import dataclass, fields

SHARE = "%"
LONGEST_SUMMARY = 54  # characters: beside the longest name of a check in a terminal of 80 columns
LONGEST_TITLE = 32  # characters: beside a chart
IDENTIFIER_MARKS = "_`"


@dataclass(frozen=True, kw_only=True)
class About:
    """Hold the words of one check for people who do not read its code.

    `title` names it; `summary` is one line for lists. `knows`, `tries` and `means` are whole sentences and together one
    paragraph: `means` says what it would mean for people if the figure were at its limit, or what the limit
    protects. `measure` says what `observed` is, without article; `unit` is "%" for a share, "" for a plain number, else
    what is counted, in the plural. `guess` is the figure that guessing gives, where that is the same for every release.
    `names_people`: the attack succeeds by naming a person.
    """

    title: str
    summary: str
    knows: str
    tries: str
    means: str
    measure: str
    unit: str = SHARE
    guess: float | None = None
    names_people: bool = False

    def __post_init__(self) -> None:
        """Refuse words that a list or a paragraph cannot show."""
        for field in fields(self):
            words = getattr(self, field.name)
            if not isinstance(words, str):
                continue
            if not words and field.name != "unit":
                raise ValueError(f"about.{field.name} is empty")
            if any(mark in words for mark in IDENTIFIER_MARKS):
                raise ValueError(f"about.{field.name} holds an identifier; it is for people: {words}")
        for name, most in (("title", LONGEST_TITLE), ("summary", LONGEST_SUMMARY)):
            if len(getattr(self, name)) > most:
                raise ValueError(f"about.{name} is longer than {most} characters: {getattr(self, name)}")
        for name in ("knows", "tries", "means"):
            if not getattr(self, name).endswith("."):
                raise ValueError(f"about.{name} must be whole sentences: {getattr(self, name)}")
