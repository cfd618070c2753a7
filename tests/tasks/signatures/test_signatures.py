"""Test signatures: what is verified, what is refused, and that publication signs where the owner has a key."""

import base64
import datetime
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from checks.evidence.signature import signature_problems
from tasks.cli._main import main
from tasks.errors import Refused, UsageError
from tasks.signatures.envelope import PAYLOAD_TYPE, key_id, pre_authentication_encoding, seal
from tasks.signatures.owner_keys import OwnerKeys, sign_release
from tasks.signatures.statement import SIGNATURE, state_release
from tasks.signatures.trust import read_trusted, verify_signature
from tasks.store import Store, digest, read_json, write_json
from tests.tasks.series.made_series import make_candidate, publish_candidate

JANUARY = "2026-01-01"


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    for name in ("MURMUR_LEDGER", "MURMUR_SIGNING_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def release(tmp_path, store):
    """Publish a signed release; return its directory."""
    OwnerKeys(store).make()
    place = make_candidate(tmp_path / "made", store, JANUARY, ["ann", "bob", "cid", "dan"], items=["x", "y"])
    publish_candidate(place, store, JANUARY)
    return store.root / "published" / "films" / JANUARY


def exported(store: Store, tmp_path: Path) -> Path:
    path = tmp_path / "trusted-keys.json"
    write_json(path, OwnerKeys(store).export())
    return path


def verified(release: Path, store: Store, tmp_path: Path) -> dict:
    return verify_signature(release, read_trusted(exported(store, tmp_path)))


def test_encoding_by_hand():
    assert pre_authentication_encoding("kind", b"hi there") == b"DSSEv1 4 kind 8 hi there"


def test_a_published_release_is_signed(release, store, tmp_path):
    found = verified(release, store, tmp_path)
    assert found["status"] == "valid"
    assert found["keys"] == [OwnerKeys(store).listed()[0]["keyid"]]
    statement = json.loads(base64.b64decode(read_json(release / SIGNATURE)["payload"]))
    names = [one["name"] for one in statement["subject"]]
    assert {"manifest.json", "groups.parquet", "members.parquet"} <= set(names)
    assert SIGNATURE not in names
    assert not [count for count, _ in signature_problems(release) if count]
    assert oct((release / SIGNATURE).stat().st_mode & 0o777) == "0o644"


def test_without_a_key_nothing_is_signed(tmp_path, store):
    place = make_candidate(tmp_path / "made", store, JANUARY, ["ann", "bob"], items=["x", "y"])
    publish_candidate(place, store, JANUARY)
    release = store.root / "published" / "films" / JANUARY
    assert not (release / SIGNATURE).exists()
    key = OwnerKeys(store).make()
    with pytest.raises(Refused, match="not signed"):
        verify_signature(release, read_trusted(exported(store, tmp_path)))
    assert key["valid_until"] is None


def test_the_same_files_have_the_same_signature(release, store, tmp_path):
    before = (release / SIGNATURE).read_bytes()
    assert sign_release(store, release)
    assert (release / SIGNATURE).read_bytes() == before


def test_a_flipped_bit_in_any_file_is_refused(release, store, tmp_path):
    """In every byte of the signature, where base64 could write the same bytes in two ways, and all over other files."""
    trusted, rng = read_trusted(exported(store, tmp_path)), np.random.default_rng(7)
    files = sorted(release.iterdir())
    assert {"manifest.json", "groups.parquet", "members.parquet", "items.parquet", SIGNATURE} <= {
        file.name for file in files
    }
    for file in files:
        data = file.read_bytes()
        places = range(len(data)) if file.name == SIGNATURE else rng.integers(0, len(data), 20).tolist()
        flips = [(at, int(rng.integers(8))) for at in places]
        if file.name == SIGNATURE:
            flips += [(at, bit) for at, byte in enumerate(data) if byte == ord("=") for bit in range(8)]
            flips += [(at - 1, bit) for at, byte in enumerate(data) if byte == ord("=") for bit in range(8)]
        for at, bit in flips:
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            file.write_bytes(changed)
            with pytest.raises(Refused):
                verify_signature(release, trusted)
        file.write_bytes(data)
    assert verify_signature(release, trusted)["status"] == "valid"


def test_a_swapped_file_with_mended_digests_is_refused(release, store, tmp_path):
    """Who changes a file and the manifest's digest of it still lacks the key."""
    shutil.copyfile(release / "items.parquet", release / "members.parquet")
    manifest = read_json(release / "manifest.json")
    manifest["files"]["members.parquet"] = digest(release / "members.parquet")
    write_json(release / "manifest.json", manifest)
    with pytest.raises(Refused, match=r"not as signed: manifest\.json, members\.parquet"):
        verified(release, store, tmp_path)


def test_a_further_file_is_refused(release, store, tmp_path):
    (release / "notes.txt").write_text("hello")
    with pytest.raises(Refused, match="1 files are not part"):
        verified(release, store, tmp_path)


def test_another_keys_signature_is_refused(release, store, tmp_path):
    write_json(release / SIGNATURE, seal(state_release(release), Ed25519PrivateKey.generate()))
    with pytest.raises(Refused, match="no trusted key"):
        verified(release, store, tmp_path)


def test_a_signature_of_another_release_is_refused(release, store, tmp_path):
    statement = state_release(release)
    statement["predicate"]["snapshot"] = "2025-01-01"
    key = OwnerKeys(store).signing_key()
    assert key is not None
    write_json(release / SIGNATURE, seal(statement, key))
    with pytest.raises(Refused, match="about another release"):
        verified(release, store, tmp_path)
    assert sum(count for count, _ in signature_problems(release)) == 1


def test_a_forged_key_name_is_refused(release, store, tmp_path):
    """A foreign signature under the name of a trusted key."""
    envelope = seal(state_release(release), Ed25519PrivateKey.generate())
    envelope["signatures"][0]["keyid"] = OwnerKeys(store).listed()[0]["keyid"]
    write_json(release / SIGNATURE, envelope)
    with pytest.raises(Refused, match="is wrong"):
        verified(release, store, tmp_path)


def test_a_revoked_key_is_refused_whatever_it_signed(release, store, tmp_path):
    OwnerKeys(store).revoke(OwnerKeys(store).listed()[0]["keyid"][:12], "stolen")
    with pytest.raises(Refused, match="revoked"):
        verified(release, store, tmp_path)
    with pytest.raises(UsageError, match="revoked"):
        OwnerKeys(store).signing_key()
    assert "stolen" not in (tmp_path / "trusted-keys.json").read_text()


def test_an_expired_key_counts_for_what_it_signed_before(release, store, tmp_path):
    keys = exported(store, tmp_path)
    listed = read_json(keys)
    signed = datetime.datetime.fromisoformat(verified(release, store, tmp_path)["signed_at"])
    for change, accepted in ((+1, True), (-1, False)):
        listed["keys"][0]["valid_until"] = (signed + datetime.timedelta(days=change)).isoformat()
        write_json(keys, listed)
        if accepted:
            assert verify_signature(release, read_trusted(keys))["status"] == "valid"
        else:
            with pytest.raises(Refused, match="had expired"):
                verify_signature(release, read_trusted(keys))
    listed["keys"][0] |= {
        "valid_until": None,
        "valid_from": (signed + datetime.timedelta(days=1)).isoformat(),
    }
    write_json(keys, listed)
    with pytest.raises(Refused, match="not valid yet"):
        verify_signature(release, read_trusted(keys))


def test_an_expired_key_does_not_sign(store):
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=30)
    OwnerKeys(store).make(days=10, now=past)
    with pytest.raises(UsageError, match="expired"):
        OwnerKeys(store).signing_key()


def test_rotation_keeps_old_releases_verifiable(release, store, tmp_path):
    old = OwnerKeys(store).listed()[0]["keyid"]
    new = OwnerKeys(store).make(now=datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1))
    assert verified(release, store, tmp_path)["keys"] == [old]
    key = OwnerKeys(store).signing_key()
    assert key is not None
    assert key_id(key.public_key()) == new["keyid"]
    assert [one["valid_until"] is None for one in OwnerKeys(store).listed()] == [False, True]


def test_keys_are_the_owners_alone(store):
    made = OwnerKeys(store).make()
    directory = store.root / "private" / "keys"
    assert oct(directory.stat().st_mode & 0o777) == "0o700"
    assert {oct(file.stat().st_mode & 0o777) for file in directory.iterdir()} == {"0o600"}
    (directory / f"{made['keyid']}.pem").chmod(0o644)
    with pytest.raises(UsageError, match="can be read by others"):
        OwnerKeys(store).signing_key()


def test_a_mounted_key(tmp_path, store, monkeypatch):
    key = Ed25519PrivateKey.generate()
    path = tmp_path / "mounted.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    monkeypatch.setenv("MURMUR_SIGNING_KEY", str(path))
    place = make_candidate(tmp_path / "made", store, JANUARY, ["ann", "bob"], items=["x", "y"])
    publish_candidate(place, store, JANUARY)
    public = tmp_path / "public.pem"
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    release = store.root / "published" / "films" / JANUARY
    assert verify_signature(release, read_trusted(public))["keys"] == [key_id(key.public_key())]
    monkeypatch.setenv("MURMUR_SIGNING_KEY", str(tmp_path / "gone.pem"))
    with pytest.raises(UsageError, match="no signing key"):
        OwnerKeys(store).signing_key()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"keys": 3}', b'{"keys": [{"public_key": "eA=="}]}', b"-----BEGIN X"]
)
def test_files_that_hold_no_keys_are_refused(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="neither"):
        read_trusted(path)


@pytest.mark.parametrize(
    "envelope",
    [
        "[]",
        "{",
        "{}",
        '{"payload": "%%", "payloadType": "a", "signatures": []}',
        json.dumps({"payload": "e30=", "payloadType": PAYLOAD_TYPE, "signatures": [{"keyid": "a"}]}),
        json.dumps({"payload": "e30=", "payloadType": PAYLOAD_TYPE, "signatures": []}),
        json.dumps({"payload": "e30=", "payloadType": "text/plain", "signatures": []}),
        "[" * 100_000,
    ],
)
def test_broken_signatures_are_refused(release, store, tmp_path, envelope):
    (release / SIGNATURE).write_text(envelope)
    with pytest.raises(Refused):
        verified(release, store, tmp_path)
    assert sum(count for count, _ in signature_problems(release)) > 0


def test_free_text_beside_a_signature_is_found(release):
    envelope = read_json(release / SIGNATURE)
    write_json(release / SIGNATURE, {**envelope, "note": "ann rated x"})
    assert sum(count for count, _ in signature_problems(release)) == 1
    envelope["signatures"][0]["keyid"] = "ann"
    write_json(release / SIGNATURE, envelope)
    assert sum(count for count, _ in signature_problems(release)) == 1


def test_commands(release, store, tmp_path, capsys):
    """`murmur keys` and `murmur verify --key`, with their exit codes; no private key is ever printed."""
    out, root = tmp_path / "keys.json", str(store.root)
    assert main(["keys", "export", str(out), "--store", root, "--json"]) == 0
    assert main(["keys", "list", "--store", root, "--json"]) == 0
    capsys.readouterr()
    main(["verify", str(release), "--key", str(out), "--json"])
    assert json.loads(capsys.readouterr().out)["signature"]["status"] == "valid"
    assert main(["keys", "new", "--days", "0", "--store", root]) == 2
    assert main(["keys", "new", "--days", "30", "--store", root, "--json"]) == 0
    printed = capsys.readouterr()
    assert "PRIVATE" not in printed.out + printed.err
    assert main(["keys", "revoke", "zz", "--reason", "x", "--store", root]) == 2
    name = OwnerKeys(store).listed()[0]["keyid"]
    assert main(["keys", "revoke", name[:16], "--reason", "stolen", "--store", root]) == 0
    main(["keys", "export", str(out), "--store", root])
    capsys.readouterr()
    assert main(["verify", str(release), "--key", str(out), "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["status"], answer["signature"]["status"]) == ("refused", "refused")
    assert "revoked" in answer["signature"]["why"]
