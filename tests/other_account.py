"""Knock at Dask and PostgreSQL as another account of this machine would.

`knock(…)` starts this file as a process, which becomes that account before it connects. Everything is imported first:
the other account need not be allowed to read this Python.
"""

import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NOBODY = 65534
SECONDS = 4.0


def knock(
    addresses: list[str], owner: tuple[str, str], *, uid: int | None = NOBODY, postgres: Path | None = None
) -> dict[str, dict[str, str]]:
    """Return "accepted" or "refused" by address and manner; `owner` is the certificate and key that are right."""
    question = {
        "addresses": addresses,
        "owner": owner,
        "uid": uid,
        "postgres": postgres and str(postgres),
    }
    command = [sys.executable, "-m", "tests.other_account"]
    process = subprocess.run(
        command, input=json.dumps(question), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def main() -> None:
    from distributed.comm import connect

    from tasks.engine import make_certificate

    question = json.load(sys.stdin)
    # The right certificate shows that the account can connect at all: it is the certificate that makes the difference.
    manners: dict[str, Any] = {
        "plain": None,
        "no certificate": context(None),
        "a certificate of its own": context(make_certificate()),
        "the owner's certificate": context(question["owner"]),
    }
    if question["postgres"]:
        import psycopg2
    if question["uid"] is not None:
        os.setgroups([])
        os.setgid(question["uid"])
        os.setuid(question["uid"])

    async def ask(address: str, tls: ssl.SSLContext | None) -> str:
        place = address if tls else address.replace("tls://", "tcp://")

        async def identity() -> dict[str, Any]:
            comm = await connect(place, timeout=SECONDS, ssl_context=tls, require_encryption=bool(tls))
            await comm.write({"op": "identity", "reply": True})
            return await comm.read()

        try:
            return "accepted" if (await asyncio.wait_for(identity(), SECONDS))["type"] else "refused"
        except (TimeoutError, OSError, ValueError):  # a plain listener confuses a TLS client
            return "refused"

    async def ask_all() -> dict[str, dict[str, str]]:
        questions = [(address, manner) for address in question["addresses"] for manner in manners]
        answers = await asyncio.gather(*(ask(address, manners[manner]) for address, manner in questions))
        found: dict[str, dict[str, str]] = {address: {} for address in question["addresses"]}
        for (address, manner), answer in zip(questions, answers, strict=True):
            found[address][manner] = answer
        return found

    found = asyncio.run(ask_all())
    if question["postgres"]:
        try:
            psycopg2.connect(host=question["postgres"], user="postgres", dbname="postgres").close()
            found["postgres"] = {"socket": "accepted"}
        except psycopg2.OperationalError as problem:
            found["postgres"] = {"socket": "refused", "why": str(problem)}
    print(json.dumps(found))


def context(credentials: tuple[str, str] | None) -> ssl.SSLContext:
    """Return what an intruder would use: any server is fine."""
    made = ssl.create_default_context()
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    if credentials:
        with tempfile.TemporaryDirectory() as place:
            files = [Path(place, name) for name in ("certificate", "key")]
            for file, text in zip(files, credentials, strict=True):
                file.write_text(text)
            made.load_cert_chain(*map(str, files))
    return made


if __name__ == "__main__":
    main()
