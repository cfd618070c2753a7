"""Test the answer of `murmur run`."""

import datetime

from tasks.cli._run_result import describe
from tasks.store import Store, write_json


def test_a_release_without_newcomers_has_no_utility(config, tmp_path):
    """All groups are carried over, so the shadow run had nothing to do; the release is published all the same."""
    store, day = Store(tmp_path), datetime.date(2026, 1, 1)
    made = config()
    published, private = (side(made.release.name, day) for side in (store.published, store.private))
    published.mkdir(parents=True)
    (private / "utility").mkdir(parents=True)
    write_json(published / "manifest.json", {"counts": {"users": 10}})
    answer = describe(made, day, store, None, judged=True)
    assert (answer["status"], answer["utility"], answer["counts"]) == ("published", {}, {"users": 10})
