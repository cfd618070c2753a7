"""Test a store that is a directory."""

import pytest

from tasks.storage.local import LocalStorage
from tests.contracts.storages import StorageContract


class TestLocalStorage(StorageContract):
    """A directory keeps what is asked of a storage."""

    @pytest.fixture
    def storage(self, tmp_path):
        return LocalStorage(tmp_path)

    @pytest.fixture
    def another(self, tmp_path):
        return LocalStorage(tmp_path)
