"""Test the models for missing ratings: centre, item means, user means; no mean discloses a few users' ratings."""

import numpy as np
import pytest

from tasks.data.factors import open_model
from tasks.data.imputation import write_imputed
from tasks.data.ratings import Ratings, write_ids, write_matrix
from tasks.kernels import fill_models


@pytest.fixture
def imputed(tmp_path):
    """Write a matrix (0: not rated), impute it, and read the model: (matrix, kind, fewest) → all imputed values."""
    numbers = iter(range(9))

    def make(matrix, kind, fewest=2, scale=(1.0, 5.0)):
        import scipy.sparse as sp

        place = tmp_path / str(next(numbers))
        place.mkdir()
        matrix = sp.csr_array(np.array(matrix, np.float32))
        write_ids(place, "user", [str(n) for n in range(matrix.shape[0])])
        write_ids(place, "item", [str(n) for n in range(matrix.shape[1])])
        write_matrix(place, matrix)
        write_imputed(place / "imputed", Ratings(place), kind, scale=scale, fewest=fewest)
        return open_model(place / "imputed").rows(slice(None))

    return make


RATED = [
    [5, 4, 0, 1],
    [3, 2, 0, 0],
    [1, 0, 2, 0],
    [0, 0, 4, 0],
]


@pytest.mark.parametrize(("scale", "centre"), [((1.0, 5.0), 3.0), ((-10.0, 10.0), 0.0), ((0.5, 5.0), 2.75)])
def test_centre_model_is_the_scale_centre(imputed, scale, centre):
    assert (imputed(RATED, "central", scale=scale) == centre).all()


def test_item_means_of_enough_ratings(imputed):
    # Items: (5+3+1)/3 = 3, (4+2)/2 = 3, (2+4)/2 = 3; the last has one rater: the mean of the other seven, 21/7 = 3.
    assert imputed(RATED, "item-mean") == pytest.approx(np.full((4, 4), 3.0))
    # With three raters wanted only the first item has a mean, and it is everybody's: 9/3.
    assert imputed(RATED, "item-mean", fewest=3) == pytest.approx(np.full((4, 4), 3.0))
    unlike = [[5, 1, 0], [5, 1, 0], [5, 2, 4]]
    expected = [5, 4 / 3, 19 / 6]  # the last item's single rating is not in the overall mean either
    assert imputed(unlike, "item-mean") == pytest.approx(np.tile(expected, (3, 1)))


def test_user_means_of_enough_ratings(imputed):
    # The last item has one rater and counts for nobody. Users: 9/2, 5/2, 3/2; the fourth has one rating: the mean of
    # the six ratings of the others, 17/6.
    expected = np.repeat([[4.5], [2.5], [1.5], [17 / 6]], 4, axis=1)
    assert imputed(RATED, "user-mean") == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["item-mean", "user-mean"])
def test_ratings_of_rare_items_change_no_mean(imputed, kind):
    changed = np.array(RATED)
    changed[0, 3] = 5
    assert np.array_equal(imputed(RATED, kind), imputed(changed, kind))


def test_centre_replaces_means_of_too_few_ratings():
    model = fill_models.item_mean_model(2, np.array([4.0, 5.0]), np.array([1, 1]), fewest=3, centre=3.0)
    assert (model.rows(slice(None)) == 3.0).all()
