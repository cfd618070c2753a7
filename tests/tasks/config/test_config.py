"""Test which release files are accepted, and that a refusal names the key and the remedy."""

import textwrap

import pytest

from tasks.config import load, parse, snapshot_date
from tasks.errors import UsageError

GOOD = {"release": {"name": "demo"}, "source": {"format": "synthetic"}}


def with_(**tables):
    return {**GOOD, **{name: {**GOOD.get(name, {}), **table} for name, table in tables.items()}}


def about_people(format="synthetic", **keys):
    """A release whose [source.attributes] has these keys."""
    return with_(source={"format": format, "path": "x", "scale": [1, 5], "attributes": keys})


def users_csv(**keys):
    """The same of a csv source with a table of its users."""
    return about_people("csv", path="users.csv", **keys)


@pytest.mark.parametrize(
    ("data", "key", "remedy"),
    [
        (with_(privacy={"k": 1}), "privacy.k", "greater than or equal to 2"),
        (with_(privacy={"k": "5"}), "privacy.k", "valid integer"),
        (with_(privacy={"k": True}), "privacy.k", "valid integer"),
        (with_(privacy={"kk": 5}), "privacy.kk", "unknown key"),
        (with_(privacy={"l": 10_000}), "privacy.l", "lower l or k"),
        (with_(privacy={"support": True}), "privacy", "needs k of at least 10, found k = 5"),
        (
            with_(privacy={"support": True, "k": 20, "min_contributors": 2}),
            "privacy",
            "(nearly) exact counts",
        ),
        (with_(privacy={"support": True, "k": 10, "min_contributors": 6}), "privacy", "half of k = 10"),
        (
            with_(privacy={"support": True, "k": 10, "method": "predictive-simple"}),
            "privacy.support",
            "item lists, means of real ratings",
        ),
        (
            with_(privacy={"support": True, "k": 10, "method": "microaggregation"}),
            "privacy.support",
            "use 'predictive-padded'",
        ),
        (
            with_(privacy={"support": True, "k": 10, "method": "perturbation"}),
            "privacy.support",
            "records of single people",
        ),
        (
            with_(privacy={"support": True, "k": 10}, padding={"keep_observed": True}),
            "privacy.support",
            "remove one of the two",
        ),
        (with_(privacy={"rating_step": 10.0}), "privacy.rating_step", "smaller step"),
        (with_(privacy={"method": "magic"}), "privacy.method", "predictive-padded"),
        (with_(release={"name": "Not A Name"}), "release.name", "lower-case"),
        (with_(release={"schedule": "every day"}), "release.schedule", "cron"),
        (with_(source={"scale": [5, 1]}), "source", "must be below the highest"),
        (with_(source={"scale": [1]}), "source.scale", "two numbers"),
        (with_(source={"format": "csv", "scale": [1, 5]}), "source", "needs a path"),
        (with_(source={"format": "csv", "path": "x"}), "source.scale", "add it"),
        (with_(source={"encoding": "klingon"}), "source.encoding", "utf-8"),
        (with_(source={"max_bad_rows": 2.0}), "source.max_bad_rows", "less than or equal to 1"),
        (with_(gate={"no-such-check": 0.1}), "gate", "no-such-check"),
        (with_(gate={"recovery": float("inf")}), "gate", "finite"),
        (with_(gate={"contributors": 1.0}), "gate", "switched off"),
        (with_(gate={"k-anonymity": 0.5}), "gate", "whole number of at least 1"),
        (with_(gate={"diversity": 2.5}), "gate", "whole number of at least 1"),
        (with_(padding={"regularization": float("inf")}), "padding.regularization", "finite"),
        (with_(privacy={"protect": ["religion"]}), "privacy.protect", "no user attribute religion"),
        (with_(source={"format": "xml"}), "source.format", "movielens-100k, movielens-1m"),
        (
            with_(obfuscation={"attribute": "religion"}),
            "obfuscation.attribute",
            "no user attribute religion",
        ),
        (with_(obfuscation={"share": 0.1}), "obfuscation: share", "set attribute"),
        (with_(obfuscation={"attribute": "gender", "share": 0.0}), "obfuscation.share", "greater than 0"),
        (
            with_(obfuscation={"attribute": "gender", "share": 1.5}),
            "obfuscation.share",
            "less than or equal to 1",
        ),
        (with_(obfuscation={"attribute": "gender", "strategy": "magic"}), "obfuscation.strategy", "rfpp"),
        (with_(privacy={"method": "obfuscation"}), "obfuscation.attribute", "name a user attribute"),
        (
            with_(privacy={"method": "suppression"}, obfuscation={"attribute": "gender"}),
            "obfuscation: method 'suppression'",
            "remove [obfuscation]",
        ),
        (with_(suppression={"share": 1.0}), "suppression.share", "less than 1"),
        (with_(suppression={"share": -0.1}), "suppression.share", "greater than or equal to 0"),
        (about_people(columns=[]) | {"privacy": {"protect": ["gender"]}}, "privacy.protect", "user table"),
        (about_people(columns=["zip code"]), "attributes.columns", "has gender, age, not zip code"),
        (about_people("csv", columns=["gender"]), "attributes.columns", "no user table of its own"),
        (about_people(columns=["gender", "gender"]), "source.attributes", "named twice"),
        (about_people(columns="gender"), "source.attributes.columns", "valid tuple"),
        (about_people(columns=[1]), "source.attributes.columns.0", "valid string"),
        (about_people(colums=["gender"]), "source.attributes.colums", "unknown key"),
        (about_people(user="id"), "source.attributes", "user: name the table"),
        (about_people(encoding="latin-1", delimiter=";"), "source.attributes", "delimiter, encoding: name"),
        (users_csv(), "source.attributes", "name the columns"),
        (users_csv(columns=[]), "source.attributes", "name the columns"),
        (users_csv(columns=["g", "user"], user="id"), "source.attributes", "none can be called 'user'"),
        (users_csv(columns=["g", "id"], user="id"), "source.attributes", "the users' ids are no attribute"),
        (users_csv(columns=["g"], delimiter="::"), "source.attributes.delimiter", "at most 1 character"),
        (users_csv(columns=["g"], encoding="klingon"), "source.attributes.encoding", "utf-8"),
        (users_csv(columns=["g"], groups={"h": {"a": [1]}}), "attributes.groups", "h is none of"),
        (users_csv(columns=["g"], edges={"h": [1]}), "attributes.edges", "h is none of"),
        (users_csv(columns=["g"], groups={"g": {}}), "groups.g", "each group its values"),
        (users_csv(columns=["g"], groups={"g": {"a": [1], "b": []}}), "groups.g", "each group its values"),
        (users_csv(columns=["g"], groups={"g": {"a": [1], "b": [" "]}}), "groups.g", "each group its values"),
        (
            users_csv(columns=["g"], groups={"g": {"a": [1], "b": ["1"]}}),
            "groups.g",
            "each value to one group",
        ),
        (users_csv(columns=["g"], groups={"g": {"a": [[1]]}}), "attributes.groups.g.a.0", "valid string"),
        (users_csv(columns=["g"], groups={"g": {"a": "b"}}), "attributes.groups.g.a", "valid tuple"),
        (users_csv(columns=["g"], groups={"g": ["a"]}), "attributes.groups.g", "valid dictionary"),
        (users_csv(columns=["g"], groups=["g"]), "attributes.groups", "valid dictionary"),
        (users_csv(columns=["g"], edges={"g": []}), "edges.g", "rising numbers"),
        (users_csv(columns=["g"], edges={"g": [36, 18]}), "edges.g", "rising numbers"),
        (users_csv(columns=["g"], edges={"g": [18, 18.0]}), "edges.g", "rising numbers"),
        (users_csv(columns=["g"], edges={"g": [True]}), "attributes.edges.g.0", "valid number"),
        (users_csv(columns=["g"], edges={"g": [1, float("nan")]}), "attributes.edges.g.1", "finite number"),
        (users_csv(columns=["g"], edges={"g": 18}), "attributes.edges.g", "valid tuple"),
        (users_csv(columns=["g"], edges=[18]), "attributes.edges", "valid dictionary"),
        (
            users_csv(columns=["g"], edges={"g": [1]}, groups={"g": {"a": [1]}}),
            "source.attributes",
            "g is set in both groups and edges",
        ),
        (with_(padding={"neutral": ["religion"]}), "padding.neutral", "no user attribute religion"),
        (
            with_(padding={"neutral": ["gender"]}, privacy={"method": "predictive-simple"}),
            "padding.neutral",
            "such as 'predictive-padded'",
        ),
        (
            with_(padding={"neutral": ["gender"], "keep_observed": True}),
            "padding: neutral",
            "keep one of them",
        ),
        (
            with_(series={"mode": "sticky"}, privacy={"method": "perturbation"}),
            "series.mode",
            "records of single people",
        ),
        (with_(series={"min_cohort": 9}), "series.min_cohort", "two groups"),
        (with_(clustering={"metric": "cosine"}), "clustering.metric", "weighted-squared"),
        ({"release": {"name": "x"}}, "source", "add it"),
        (with_(surprise={}), "surprise", "unknown key"),
    ],
)
def test_a_refusal_names_the_key_and_the_remedy(data, key, remedy):
    with pytest.raises(UsageError) as refusal:
        parse(data)
    assert key in refusal.value.what
    assert remedy in refusal.value.what
    assert refusal.value.exit_code == 2


def test_more_people_and_groups_can_be_demanded():
    assert parse(with_(gate={"k-anonymity": 10, "diversity": 3})).gate == {"k-anonymity": 10, "diversity": 3}


def test_what_is_hidden_must_be_known():
    chosen = with_(privacy={"protect": ["gender"]}, obfuscation={"attribute": "gender"})
    assert parse(chosen).needed_attributes == ("gender",)
    hidden = parse(with_(obfuscation={"attribute": "gender"}))
    assert (hidden.needed_attributes, hidden.protected_attributes) == (("gender",), ())
    assert parse(chosen).protected_attributes == ("gender",)
    assert parse(GOOD).needed_attributes == ()


def test_what_a_source_is_asked_for():
    assert parse(GOOD).source.attribute_names == ("gender", "age")
    assert parse(about_people("csv")).source.attribute_names == ()
    assert parse(about_people("movielens-1m")).source.attribute_names == ("gender", "age")
    assert parse(about_people(columns=[])).source.attribute_names == ()
    assert parse(about_people("movielens-1m", columns=["occupation"])).source.attribute_names == (
        "occupation",
    )
    given = parse(
        users_csv(columns=["g", "age"], edges={"age": [18]}, groups={"g": {"a": [1, 2.0, True, " x "]}})
    )
    assert given.source.attribute_edges == {"age": (18.0,)}
    assert given.source.attributes.groups == {"g": {"a": ("1", "2", "true", "x")}}
    protected = parse(users_csv(columns=["g"]) | {"privacy": {"protect": ["g", "g"]}})
    assert protected.needed_attributes == ("g",)


def test_years_are_cut_only_where_the_format_has_years():
    small = parse(about_people("movielens-100k")).source
    assert small.attribute_edges == {"age": (18.0, 36.0)}
    assert parse(about_people("movielens-1m")).source.attribute_edges == {}
    put = parse(about_people("movielens-100k", groups={"age": {"teens": [17]}})).source
    assert put.attribute_edges == {}
    other = parse(about_people("movielens-100k", path="users.csv", columns=["age"])).source
    assert other.attribute_edges == {}


def test_settings_are_frozen():
    config = parse(GOOD)
    with pytest.raises(ValueError, match="frozen"):
        config.privacy.k = 2


def test_whole_numbers_serve_as_scale():
    assert parse(with_(source={"scale": [1, 5]})).source.scale == (1.0, 5.0)


def test_a_file_is_read_and_its_errors_name_it(tmp_path):
    path = tmp_path / "release.toml"
    path.write_text(
        textwrap.dedent("""
            [release]
            name = "films"
            schedule = "0 3 1 * *"
            start_date = 2026-02-01
            [source]
            format = "csv"
            path = "ratings-{snapshot}.csv"
            scale = [0.5, 5.0]
            [gate]
            recovery = 0.2
        """)
    )
    config = load(path)
    assert config.release.start_date.isoformat() == "2026-02-01"
    assert config.gate == {"recovery": 0.2}
    path.write_text("[release\n")
    with pytest.raises(UsageError, match="not valid TOML") as refusal:
        load(path)
    assert str(path) in refusal.value.where
    with pytest.raises(UsageError, match="no such configuration"):
        load(tmp_path / "absent.toml")


def test_the_population_is_the_release_unless_named():
    assert parse(GOOD).population == "demo"
    assert parse(with_(series={"population": "members"})).population == "members"


@pytest.mark.parametrize("text", ["2026-13-01", "yesterday", "2026-1-1T00", ""])
def test_a_snapshot_is_a_date(text):
    with pytest.raises(UsageError, match="YYYY-MM-DD"):
        snapshot_date(text)
