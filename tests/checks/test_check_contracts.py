"""Apply the contract of checks to every check, each with a release that it must refuse."""

import copy
from dataclasses import replace

import made_releases as made
import made_support
import made_sybils
import numpy as np
import pyarrow as pa
import pytest

from checks.inference import boosting
from tasks.store import read_json, write_json
from tests.contracts import CheckContract


@pytest.fixture(scope="module")
def open_release(ratings, releases, tmp_path_factory):
    """Put a release on disk and open it: (a name of `releases`, or a release; change to its files) → case."""

    def build(release, change=None, pseudonyms=None):
        if isinstance(release, str):
            release = raw(ratings) if release == "raw" else releases[release]
        root = tmp_path_factory.mktemp("contract") / "release"
        published, private = made.write(copy.deepcopy(release), root, pseudonyms)
        if change is not None:
            change(published, private)
            made.seal(published)
        return made.reopen(release, published, private)

    return build


def raw(ratings, **changes):
    """Return every user's own ratings under a pseudonym: what most attacks exist to refuse."""
    values = np.full(ratings.shape, np.nan, np.float32)
    values[np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr)), ratings.indices] = ratings.data
    place = np.random.default_rng(5).permutation(len(values))
    shuffled = np.empty_like(values)
    shuffled[place] = values
    return made.Made(ratings, place, shuffled, k=5, c=1, step=1.0, method="suppression").but(**changes)


def say(published, **changes):
    """Change keys of the manifest."""
    write_json(published / "manifest.json", read_json(published / "manifest.json") | changes)


class RawRatings(CheckContract):
    """Plant raw ratings with the names removed."""

    def violation(self, opened):
        return opened("raw")


class Noise(CheckContract):
    """Plant single users' ratings behind too little noise; noise of forty standard deviations hides them."""

    def violation(self, opened):
        return opened(made.perturbed(made.synthetic(150, 100, 0.2), 1 / 3))

    def harmless(self, opened):
        return opened(made.perturbed(made.synthetic(150, 100, 0.2), 40.0, every_item=True))


@pytest.mark.slow
class Attribute(CheckContract):
    """Plant raw ratings in which half of what one class rates is missing for the other."""

    protect: tuple[str, ...]

    @pytest.fixture(scope="class", autouse=True)
    def _few_trees(self):
        """Use a sixth of the trees: enough to find what is planted here."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(boosting, "TREES", 25)
            yield

    def labelled(self, opened, users, lean):
        draw = np.random.default_rng(3)
        one = draw.random(users) < 0.4
        whole = made.synthetic(users=users, items=60, density=0.3, seed=3).tolil()
        for who, items in ((one, range(20)), (~one, range(20, 40))):
            for item in items:
                whole[np.flatnonzero(who & (draw.random(users) < lean)), item] = 0
        whole[:, 59] = 3.0  # every user has a rating
        ratings = made.sp.csr_array(whole.tocsr())
        ratings.eliminate_zeros()
        ratings.sort_indices()
        case = opened(raw(ratings))
        number = [int(name.removeprefix("person ")) for name in case.truth.membership.users.to_pylist()]
        side = pa.array(["one" if one[n] else "other" for n in number]).dictionary_encode()
        return replace(case, given_truth=replace(case.truth, attributes={"side": side}), protect=self.protect)

    def violation(self, opened):
        return self.labelled(opened, 300, 0.5)

    def harmless(self, opened):
        return self.labelled(opened, 1600, 0.0)  # fewer users prove nothing: the interval is too wide


class TestAttributeInference(Attribute):
    name = "attribute-inference"
    protect = ("side",)


class TestUnprotectedAttributes(Attribute):
    name = "unprotected-attributes"
    protect = ()


class TestExactRating(RawRatings):
    name = "exact-rating"


class TestFuzzyRating(RawRatings):
    name = "fuzzy-rating"


class TestHomogeneity(RawRatings):
    name = "homogeneity"


class TestKmeansReconstruction(Noise):
    name = "kmeans-reconstruction"


class TestLabelBased(RawRatings):
    name = "label-based"


class TestLinkExistence(RawRatings):
    name = "link-existence"


class TestMembershipInference(RawRatings):
    name = "membership-inference"


class TestNearestRecord(RawRatings):
    name = "nearest-record"


class TestOwnRatings(CheckContract):
    name = "own-ratings"

    def violation(self, opened):
        return opened("single contributors")


class TestPcaReconstruction(Noise):
    name = "pca-reconstruction"


class TestRareItems(CheckContract):
    """Thirty items with one opinionated rater each, seen by the model or not."""

    name = "rare-items"

    def rated(self):
        common = made.synthetic(users=200, items=60, density=0.4)
        draw = np.random.default_rng(5)
        users, items = draw.choice(200, 30, replace=False), np.arange(60, 90)
        rows = np.concatenate([np.repeat(np.arange(200), np.diff(common.indptr)), users])
        values = np.concatenate([common.data, draw.choice([1.0, 5.0], 30)])
        return made.csr(rows, np.concatenate([common.indices, items]), values, (200, 90))

    def violation(self, opened):
        return opened(made.grouped(self.rated(), 5, rare=0, rank=6))

    def harmless(self, opened):
        return opened(made.grouped(self.rated(), 5, rare=3, rank=6))


class TestRatingInference(RawRatings):
    name = "rating-inference"


class TestRecovery(CheckContract):
    name = "recovery"

    def violation(self, opened):
        return opened("observed kept")


class TestLinkRecovery(CheckContract):
    """Plant a model that follows single raters; profiles that have nothing to do with the people are harmless."""

    name = "link-recovery"

    def made(self):
        return made.grouped(made.synthetic(500, 900, 0.02), 5, rank=8)

    def violation(self, opened):
        return opened(self.made())

    def harmless(self, opened):
        release, rng = self.made(), np.random.default_rng(1)
        values = 3.5 + rng.normal(0, 0.4, (release.n_groups, 6)) @ rng.normal(0, 0.4, (6, 900))
        return opened(release.but(values=values.astype(np.float32)))


class TestScoreboardRh(RawRatings):
    name = "scoreboard-rh"


class TestScoring(RawRatings):
    name = "scoring"


class TestSetIntersection(RawRatings):
    name = "set-intersection"


class TestStructureBased(RawRatings):
    name = "structure-based"


class TestSupportDisclosure(CheckContract):
    """Publish exact counts of raters; counts by the rule are harmless."""

    name = "support-disclosure"

    def beside(self, opened, exact):
        release = made_support.release()
        cells = made_support.count(release) if exact else made_support.cells_by_rule(release)
        return opened(release, lambda published, _: made_support.write_support(published, cells))

    def violation(self, opened):
        return self.beside(opened, exact=True)

    def harmless(self, opened):
        return self.beside(opened, exact=False)


class TestSvdEmReconstruction(Noise):
    name = "svd-em-reconstruction"


class TestSybil(CheckContract):
    """Columns of one-rater items carry a third of the rater's opinion, or nothing of it."""

    name = "sybil"

    def planted(self, opened, carried):
        release = made_sybils.attackable()
        return opened(
            release, lambda _, private: made_sybils.write_opinions(release, private, carried=carried)
        )

    def violation(self, opened):
        return self.planted(opened, 1 / 3)

    def harmless(self, opened):
        return self.planted(opened, 0.0)


class TestTfIdf(RawRatings):
    name = "tf-idf"


class TestContributors(CheckContract):
    name = "contributors"

    def violation(self, opened):
        return opened("single contributors")


class TestDiversity(CheckContract):
    """More groups around an item are promised than there are groups."""

    name = "diversity"

    def violation(self, opened):
        def promise(published, _):
            privacy = read_json(published / "manifest.json")["privacy"]
            say(published, privacy={**privacy, "l": 1000})

        return opened("simple", promise)


class TestIntegrity(CheckContract):
    """The manifest counts one group too many."""

    name = "integrity"

    def violation(self, opened):
        def miscount(published, _):
            counts = read_json(published / "manifest.json")["counts"]
            say(published, counts={**counts, "groups": counts["groups"] + 1})

        return opened("padded", miscount)


class TestKAnonymity(CheckContract):
    """A method of groups publishes single users."""

    name = "k-anonymity"

    def violation(self, opened):
        return opened(raw(made.synthetic(), method="predictive-padded"))


class TestPseudonyms(CheckContract):
    """The pseudonyms are the source's ids."""

    name = "pseudonyms"

    def violation(self, opened):
        return opened("padded", pseudonyms=[f"person {number}" for number in range(300)])


class TestOrdering(CheckContract):
    """Groups are numbered by the lowest source id of their members; everything else is as it was."""

    name = "ordering"

    def violation(self, opened):
        return opened(made.numbered_by_source(made.grouped(made.synthetic())))


class TestUtility(CheckContract):
    """The held-out errors are worse than those of random groups."""

    name = "utility"

    def violation(self, opened):
        return opened("padded", lambda _, private: made.write_utility(private / "utility", worse=1.5))
