"""Test what every strategy of obfuscation must keep (tasks/obfuscators)."""

from typing import ClassVar, get_args

import numpy as np
import pytest

import tasks.obfuscators
from tasks.config.obfuscation import Obfuscation


class StrategyContract:
    """Require that a strategy adds as many ratings as asked, on the scale, and none of a rated item."""

    name: ClassVar[str]

    def test_registered(self):
        """The strategy is found by its name, and the configuration accepts it."""
        assert self.name in tasks.obfuscators.registered()
        assert self.name in get_args(Obfuscation.model_fields["strategy"].annotation)

    @pytest.mark.parametrize("share", [0.02, 0.1])
    def test_additions(self, taste_matrix, share):
        """The wanted number of ratings is added, the same ones for the same seed."""
        matrix = taste_matrix(users=60, items=40)
        labels = ((matrix.toarray()[:, :20] > 0).sum(axis=1) > 8).astype(int)
        chance = tasks.obfuscators.seeded_chance(1)
        wanted = tasks.obfuscators.Request(share=share, classes=2, scale=(1.0, 5.0), chance=chance)
        one, other = (
            tasks.obfuscators.load_strategy(self.name).add(matrix, labels, wanted) for _ in range(2)
        )
        assert one.shape == matrix.shape
        assert one.nnz == wanted.total(matrix) > 0
        assert not one.multiply(matrix).nnz
        assert ((one.data >= 1) & (one.data <= 5)).all()
        assert np.array_equal(one.toarray(), other.toarray())
