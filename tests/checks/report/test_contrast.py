"""Test that text in report.html, and in Airflow's pages that share its colours, has the contrast of WCAG 2.2 AA."""

import re
from pathlib import Path

import pytest

STYLE = Path(__file__).parents[3] / "checks" / "report" / "templates" / "style.css"
LEAST = 4.5  # for text that is not large
PAIRS = [
    (text, ground)
    for text, grounds in {
        "ink": ("paper", "soft", "good-soft", "bad-soft"),
        "quiet": ("paper", "soft"),
        "accent": ("paper", "soft", "bad-soft"),
        "good": ("paper", "good-soft"),
        "bad": ("paper", "bad-soft"),
        "note": ("paper", "soft"),
    }.items()
    for ground in grounds
]


def luminance(colour):
    """Return the relative luminance of WCAG 2.2."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def themes(style):
    """Return the colours of the light and the dark theme by name."""
    blocks = re.findall(r":root \{([^}]*)\}", style)
    found = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]
    return [one for one in found if one]


def test_the_measure():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(
        4.48, abs=0.01
    )  # the well-known grey that just fails


def test_text_is_readable_in_both_themes():
    light, dark = themes(STYLE.read_text())[:2]
    assert light.keys() == dark.keys()
    for theme in (light, dark):
        for text, ground in PAIRS:
            assert contrast(theme[text], theme[ground]) >= LEAST, (text, ground)
