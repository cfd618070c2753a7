"""Hold six users of two classes whose ratings reveal the class: an example that is worked by hand in several tests."""

import numpy as np
import scipy.sparse as sp

# The first three users rate items 0 and 1, the others items 2 and 3; all rate item 4 alike. Raters: 3 3 4 2 6.
RATINGS = sp.csr_array(
    np.array(
        [
            [5, 4, 0, 0, 3],
            [5, 0, 0, 0, 3],
            [4, 5, 1, 0, 3],
            [0, 0, 5, 4, 3],
            [0, 1, 4, 0, 3],
            [0, 0, 5, 2, 3],
        ],
        np.float32,
    )
)
LABELS = np.array([0, 0, 0, 1, 1, 1])
