"""Test `murmur keys dask`: the certificate of a Dask cluster, for its owner alone."""

import datetime
import json
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tasks.cli import main


def keys(capsys, *arguments):
    code = main(["keys", "dask", *map(str, arguments), "--json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out) if printed.out else printed.err


def test_makes_a_certificate_and_its_key_for_the_owner(tmp_path, capsys):
    code, answer = keys(capsys, tmp_path, "--days", 30)
    assert (code, answer["status"]) == (0, "made")
    certificate, key = tmp_path / "dask_certificate", tmp_path / "dask_key"
    assert (answer["certificate"], answer["key"]) == (str(certificate), str(key))
    assert {file.stat().st_mode & 0o777 for file in (certificate, key)} == {0o600}
    made = x509.load_pem_x509_certificate(certificate.read_bytes())
    assert load_pem_private_key(key.read_bytes(), None).public_key() == made.public_key()
    left = made.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=29) < left <= datetime.timedelta(days=30)
    context = ssl.create_default_context(cafile=str(certificate))  # its own authority
    context.load_cert_chain(str(certificate), str(key))
    assert "PRIVATE" not in json.dumps(answer)


def test_replaces_files_only_on_request(tmp_path, capsys):
    keys(capsys, tmp_path)
    before = (tmp_path / "dask_key").read_bytes()
    code, answer = keys(capsys, tmp_path)
    assert code == 2
    assert "--replace" in json.dumps(answer)
    assert (tmp_path / "dask_key").read_bytes() == before
    assert keys(capsys, tmp_path, "--replace")[0] == 0
    assert (tmp_path / "dask_key").read_bytes() != before


@pytest.mark.parametrize(("arguments", "named"), [(["--days", "0"], "--days"), (["nowhere"], "nowhere")])
def test_refuses_bad_input(tmp_path, capsys, arguments, named):
    place = tmp_path / arguments.pop() if arguments == ["nowhere"] else tmp_path
    code, answer = keys(capsys, place, *arguments)
    assert code == 2
    assert named in json.dumps(answer)
    assert list(tmp_path.iterdir()) == []
