"""What an audit takes for protected where nobody says so."""

import argparse
import json

import pytest

from tasks.config import Source
from tasks.errors import UsageError
from tasks.source_options import given_protect

KNOWN = Source(format="movielens-1m", path="-")
UNKNOWN = Source(format="netflix-prize", path="-")


def options(**given):
    return argparse.Namespace(**{"protect": None, "config": None, **given})


def test_a_release_says_what_it_was_made_to_protect(tmp_path):
    (tmp_path / "verdict.json").write_text(json.dumps({"protect": ["gender"]}))
    assert given_protect(options(), KNOWN, tmp_path) == ("gender",)
    assert given_protect(options(protect="age"), KNOWN, tmp_path) == ("age",)
    with pytest.raises(UsageError, match="nothing is known of gender, which this release protects"):
        given_protect(options(), UNKNOWN, tmp_path)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"checks": []}', '{"protect": null}'])
def test_where_it_does_not_nothing_is_protected(tmp_path, text):
    if text is not None:
        (tmp_path / "verdict.json").write_text(text)
    assert given_protect(options(), UNKNOWN, tmp_path) == ()
    assert given_protect(options(), UNKNOWN) == ()
