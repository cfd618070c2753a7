"""Test which attributes an audit protects if no option names them."""

import argparse
import json

import pytest

from tasks.cli._source_options import protected_attributes_from_options
from tasks.config import Source
from tasks.errors import UsageError

KNOWN = Source(format="movielens-1m", path="-")
UNKNOWN = Source(format="netflix-prize", path="-")


def options(**given):
    return argparse.Namespace(**{"protect": None, "config": None, **given})


def test_a_release_says_what_it_was_made_to_protect(tmp_path):
    (tmp_path / "verdict.json").write_text(json.dumps({"protect": ["gender"]}))
    assert protected_attributes_from_options(options(), KNOWN, tmp_path) == ("gender",)
    assert protected_attributes_from_options(options(protect="age"), KNOWN, tmp_path) == ("age",)
    with pytest.raises(UsageError, match="the source has no attribute gender, which this release protects"):
        protected_attributes_from_options(options(), UNKNOWN, tmp_path)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"checks": []}', '{"protect": null}'])
def test_where_it_does_not_nothing_is_protected(tmp_path, text):
    if text is not None:
        (tmp_path / "verdict.json").write_text(text)
    assert protected_attributes_from_options(options(), UNKNOWN, tmp_path) == ()
    assert protected_attributes_from_options(options(), UNKNOWN) == ()
