"""Select and locate the stored cells of a sparse matrix; a stored 0 is a value."""

import numpy as np
import scipy.sparse as sp


def cell_coordinates(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column of every stored value."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices


def select_cells(matrix: sp.csr_array, kept: np.ndarray) -> sp.csr_array:
    """Return the matrix with some of its stored values."""
    indptr = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
    return sp.csr_array((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)


def replace_values(matrix: sp.csr_array, values: np.ndarray) -> sp.csr_array:
    """Return a matrix with the same cells and other values."""
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
