"""Test how values of user attributes are grouped into classes."""

import pytest

from tasks.config import Source
from tasks.errors import UsageError
from tests.tasks.formats.user_tables import OWN_TABLES, attribute_rows, parquet_bytes

AGES = "user,age\na,18\nb,25\nc,56\nd,\ne,1\n"


def test_groups(source_with_table):
    groups = {"age": {"youth": [18, "25", 35.0], "old": [56]}}
    source = source_with_table(AGES, columns=["age"], groups=groups)
    assert [value for _, value in attribute_rows(source)] == ["youth", "youth", "old", None, "other"]


def test_groups_of_truth_values(source_with_table):
    source = source_with_table(
        parquet_bytes(user=["a", "b"], group=[True, False]), "users.parquet", groups={"group": {"y": [True]}}
    )
    assert attribute_rows(source) == [("a", "y"), ("b", "other")]


def test_groups_without_users_are_refused(source_with_table):
    with pytest.raises(UsageError, match=r"no user has any of the values in source\.attributes\.groups\.age"):
        attribute_rows(source_with_table(AGES, columns=["age"], groups={"age": {"youth": ["eighteen"]}}))


def test_edges(source_with_table):
    source = source_with_table(AGES, columns=["age"], edges={"age": [18, 25, 56.5]})
    assert [value for _, value in attribute_rows(source)] == [
        "18 to below 25",
        "25 to below 56.5",
        "25 to below 56.5",
        None,
        "below 18",
    ]


def test_ranges_of_large_numbers_are_distinct(source_with_table):
    text = "user,age\n" + "".join(f"u{n},{1_000_000 + n}\n" for n in range(5))
    source = source_with_table(
        text, columns=["age"], edges={"age": [1_000_001, 1_000_002, 1_000_003, 1_000_004]}
    )
    assert len({value for _, value in attribute_rows(source)}) == 5


@pytest.mark.parametrize("odd", ["secret", "nan", "inf", "3,5", "0x10", "1 2"])
def test_edges_over_non_numbers_are_refused(odd, source_with_table):
    source = source_with_table(AGES + f'f,"{odd}"\ng,"{odd}"\n', columns=["age"], edges={"age": [18]})
    with pytest.raises(
        UsageError, match="1 different values of the attribute 'age' are not numbers"
    ) as caught:
        attribute_rows(source)
    assert odd not in caught.value.what


def test_ages_of_movielens_100k_can_be_grouped_by_edges(packed_with_table):
    ratings, users, _ = OWN_TABLES["movielens-100k"]
    place = str(packed_with_table(ratings, users)["zip"])
    cut = Source(format="movielens-100k", path=place, attributes={"edges": {"age": [20]}})
    assert [row[2] for row in attribute_rows(cut)] == ["below 20", "below 20", "from 20"]
    put = Source(format="movielens-100k", path=place, attributes={"groups": {"age": {"teens": [17, 18]}}})
    assert [row[2] for row in attribute_rows(put)] == ["teens", "teens", "other"]


def test_too_many_classes_are_refused(source_with_table):
    text = "user,group\n" + "".join(f"u{n},{n}\n" for n in range(33))
    with pytest.raises(UsageError, match="'group' has 33 different values, more than 32") as caught:
        attribute_rows(source_with_table(text))
    assert caught.value.where.endswith("users.csv")
    assert len(attribute_rows(source_with_table(text, edges={"group": [20]}))) == 33
    assert len(attribute_rows(source_with_table(text.replace("u32,32", "u32,0")))) == 33
