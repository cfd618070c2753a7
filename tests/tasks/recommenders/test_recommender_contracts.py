"""Apply the contract of recommenders to every recommender."""

from typing import ClassVar

from tests.contracts import RecommenderContract


class TestAls(RecommenderContract):
    name = "als"


class TestAverages(RecommenderContract):
    name = "averages"
    weighted = False


class TestBias(RecommenderContract):
    name = "bias"


class TestEase(RecommenderContract):
    name = "ease"


class TestItemKnn(RecommenderContract):
    name = "item_knn"
    settings: ClassVar = {"neighbours": 99}  # all: which of two equally near ones is nearest is open


class TestPearson(RecommenderContract):
    name = "pearson"
    z_scores = True
    weighted = False


class TestPopularity(RecommenderContract):
    name = "popularity"


class TestSvdCf(RecommenderContract):
    name = "svd_cf"
    z_scores = True
    weighted = False
    settings: ClassVar = {"rank": 2}


class TestSvdEm(RecommenderContract):
    name = "svd_em"
    z_scores = True
    weighted = False
    settings: ClassVar = {"rank": 2}


class TestUserKnn(RecommenderContract):
    name = "user_knn"
    settings: ClassVar = {"neighbours": 99}  # all: which of two equally near ones is nearest is open
