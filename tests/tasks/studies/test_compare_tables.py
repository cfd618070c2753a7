"""Test which figures `murmur compare` shows first, and that they are readable."""

import io

from rich.console import Console

from tasks.cli import _display as display
from tasks.config.gate import check_names
from tasks.studies.compare.comparison import _risks, _worst


def found_by(bound, observed=0.5):
    return {"ci_high": bound, "observed": observed}


def test_an_attack_without_an_interval_tells_what_it_achieved():
    found = {"link-existence": found_by(None, 0.01), "scoring": found_by(0.0), "tf-idf": found_by(0.2)}
    assert _risks(found) == {"link-existence": 0.01, "scoring": 0.0, "tf-idf": 0.2}
    # The least protected person's chance is no chance in general.
    assert _worst(found | {"label-based": found_by(None, 1.0)}) == {
        "worst_risk": 0.2,
        "worst_attack": "tf-idf",
    }
    # Balanced precision has a scale of its own, where 0.5 is nothing.
    attributes = {"attribute-inference": found_by(0.7), "unprotected-attributes": found_by(None, None)}
    assert _worst(found | attributes)["worst_risk"] == 0.2
    assert _risks(attributes) == {"attribute-inference": 0.7, "unprotected-attributes": None}
    assert _worst({}) == {"worst_risk": None, "worst_attack": None}


def test_of_equal_attacks_the_one_that_names_people_is_the_worst():
    found = {
        "kmeans-reconstruction": found_by(1.0),
        "scoring": found_by(1.0),
        "svd-em-reconstruction": found_by(1.0),
    }
    assert _worst(found)["worst_attack"] == "scoring"
    assert _worst(found | {"scoring": found_by(0.9)})["worst_attack"] == "kmeans-reconstruction"


def test_the_tables_can_be_read_in_80_columns(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(display, "OUT", Console(file=out, width=80, highlight=False, soft_wrap=True))
    figures = dict.fromkeys(display.UTILITY, -0.12345)
    attacks = dict.fromkeys(check_names(("attacks",)), -0.98765)
    worst = {"worst_risk": 0.54321, "worst_attack": "kmeans-reconstruction", "risk": attacks}
    one = {"method": "perturbation", "status": "refused", "failed": list(attacks), "why": None}
    one |= {"settings": {"amount": 4.0, "entries": "all"}, "utility": figures, **worst}
    one |= {"seconds": {"validate": 12345.6, "shadow padding": 1e9}}
    one |= {"not_applicable": ["scoring"]}
    none = {"settings": {}, "failed": [], "risk": {}, "utility": {}, "worst_risk": None, "worst_attack": None}
    none |= {"method": "microaggregation", "status": "failed", "why": "[too] wide"}
    original = {"utility": figures, **worst}
    display.show(
        {
            "snapshot": "2026-01-01",
            "dataset": "movielens-1m",
            "rows": [one] * 10 + [none],
            "original": original,
        }
    )
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    rows = [line for line in text.splitlines() if line.startswith("│ 10 ")]
    assert [cell.strip() for cell in rows[0].split("│")[1:-1]] == [
        "10", "refused", "0.543", "kmeans-reconstruction", "12,346",
    ]  # fmt: skip
    assert rows[1].count("-0.123") == len(figures)
    assert text.count("-0.988") == 11 * len(attacks) - 10  # of ten entries one attack is not applicable
    scoring = [line for line in text.splitlines() if line.startswith("│ scoring ")]
    assert sum(line.count("n/a") for line in scoring) == 10
    assert "n/a: not applicable to this release" in text
    first = next(iter(attacks))
    assert f"10  perturbation (amount 4, entries all): refused by {first}," in text
    assert "11  microaggregation: failed, [too] wide" in text
    assert "12  original, names removed" in text
