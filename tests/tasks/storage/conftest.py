"""Share an S3 server among the tests of storages."""

import pytest
import s3fs

from tests.tasks.storage.cluster import s3_server


@pytest.fixture(scope="module")
def s3_variables():
    """Serve S3 for the tests of a file: other files look which ports this process and its children listen on."""
    with s3_server() as variables:
        yield variables


@pytest.fixture
def s3(s3_variables, monkeypatch, tmp_path):
    """Lead everything to that server; each call returns the address of an empty store."""
    for name, value in s3_variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MURMUR_CACHE", str(tmp_path / "caches"))
    files = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)

    def begin() -> str:
        bucket = f"bucket-{len(files.ls(''))}"
        files.mkdir(bucket)
        return f"s3://{bucket}/some/prefix"

    return begin
