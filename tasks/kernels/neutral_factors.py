"""Move users' factors so that they do not reveal a class: every class is mapped onto one common distribution.

A published padded profile is a mean of predictions, so everything it can reveal about a member lies in the members'
factors. If the factors of women and men have the same distribution, then neither a profile nor the membership of a
group reveals more about a user than the shares in the whole population do. Means and covariances are matched: each
class goes through the affine map that moves it onto the common mean and the pooled covariance at the least cost
(optimal transport between Gaussians). The cost is measured in the space where the distance of two users is that of
their predicted ratings. Higher moments stay as they are; whether they reveal the class is for the checks to find out.

Only differences beyond chance are removed. Sampling accounts for part of the distance between a class's mean and the
overall mean. If that part were removed too, the classes of a sample would be closer than chance allows, and an
attacker who knows most users' classes could infer the rest from it.

Users of unknown class cannot be moved as their class is. The directions that reveal a class best (one fewer than
there are classes) are replaced: their values are drawn from the moved users of known class.
"""

import numpy as np
import numpy.typing as npt

ROUNDS = 8  # where several attributes are hidden: a move for one attribute moves the others a little
NOTHING = 1e-7  # share of the largest variance below which a direction is rounding, and is set to its mean
DOUBT = 5  # users per dimension before a class's own covariance counts as much as the pooled one

Float64 = npt.NDArray[np.float64]


def neutralize_factors(
    users: np.ndarray, items: np.ndarray, classes: list[np.ndarray], rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Return users' factors that do not reveal any of the attributes.

    `classes` holds the class of every user (0, 1, …; −1: not known) for each attribute.
    """
    factors = np.asarray(users, np.float64)
    there, back = _prediction_space(factors, np.asarray(items, np.float64))
    mean = factors.mean(axis=0)
    points = (factors - mean) @ there
    for _ in range(ROUNDS if len(classes) > 1 else 1):
        for label in classes:
            points = _hidden(points, label, rng)
    return (mean + points @ back).astype(np.float32)


def _prediction_space(factors: Float64, items: Float64) -> tuple[Float64, Float64]:
    """Return the maps into coordinates in which distances are those of the predictions, and back.

    The coordinates run along the directions in which users differ; in all others the map back gives equal values.
    """
    variances, axes = np.linalg.eigh(np.cov(factors.T, bias=True).reshape(factors.shape[1], -1))
    axes = axes[:, variances > NOTHING * max(variances.max(), 1e-30)]
    weighs = axes.T @ (items.T @ items / max(len(items), 1)) @ axes
    return axes @ _power(weighs, 0.5), _power(weighs, -0.5) @ axes.T


def _hidden(points: Float64, label: np.ndarray, rng: np.random.Generator) -> Float64:
    """Move users of known class, and remove from the others the directions that reveal their class."""
    known = label >= 0
    moved = points.copy()
    moved[known] = _moved(points[known], label[known])
    if known.all() or len(np.unique(label[known])) < 2:
        return moved
    whiten, colour = (_power(_pooled(points[known], label[known]), exponent) for exponent in (-0.5, 0.5))
    centre = points[known].mean(axis=0)
    means = [points[label == number].mean(axis=0) - centre for number in np.unique(label[known])]
    _, sizes, axes = np.linalg.svd(np.array(means) @ whiten, full_matrices=False)
    revealing = axes[sizes > NOTHING * max(sizes.max(), 1e-30)].T
    drawn = moved[rng.choice(np.flatnonzero(known), int((~known).sum()))]
    own, other = ((some - centre) @ whiten for some in (points[~known], drawn))
    moved[~known] = centre + (own + (other - own) @ revealing @ revealing.T) @ colour
    return moved


def _pooled(points: Float64, label: np.ndarray) -> Float64:
    """Return the covariance within the classes."""
    width = points.shape[1]
    total = np.zeros((width, width))
    for number in np.unique(label):
        centred = points[label == number] - points[label == number].mean(axis=0)
        total += centred.T @ centred
    return total / max(len(points), 1)


def _moved(points: Float64, label: np.ndarray) -> Float64:
    """Move every class onto the common mean and the pooled covariance."""
    width, mean, pooled = points.shape[1], points.mean(axis=0), _pooled(points, label)
    inverse = np.linalg.pinv(pooled)
    moved = np.empty_like(points)
    for number in np.unique(label):
        mine = label == number
        many = int(mine.sum())
        centre = points[mine].mean(axis=0)
        away = centre - mean
        distance = float(away @ inverse @ away)
        by_chance = width * max(0.0, 1 / many - 1 / len(points))
        kept = min(1.0, by_chance / distance) ** 0.5 if distance > 0 else 1.0  # both are squares
        centred = points[mine] - centre
        own = (centred.T @ centred + DOUBT * width * pooled) / (many + DOUBT * width)
        moved[mine] = mean + kept * away + centred @ _transport(own, pooled)
    return moved


def _transport(own: Float64, wanted: Float64) -> Float64:
    """Return the symmetric matrix that maps one covariance to the other and moves points as little as that allows."""
    root = _power(own, 0.5)
    inverse = _power(own, -0.5)
    return inverse @ _power(root @ wanted @ root, 0.5) @ inverse


def _power(matrix: Float64, exponent: float) -> Float64:
    values, vectors = np.linalg.eigh(matrix)
    floor = 1e-12 * max(values.max(), 1e-30)
    return (vectors * np.maximum(values, floor) ** exponent) @ vectors.T
