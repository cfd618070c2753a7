"""Fuzz every reader of files from strangers: `make fuzz MINUTES=20`, `python -m tests.hostile.campaign --help`.

Each reader is attacked in child processes with a limited memory, a limit of time for one input, and, where atheris is
installed (`make fuzz` does that), guided by the coverage of the Python code that reads. Without it inputs are mutated
blindly. What a child cannot report itself (a hang, memory, a crash of a library in C++) its libFuzzer or its exit code
does, and the input is kept. Findings and a table are written below build/fuzz.
"""

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MEMORY_BYTES = 6 * 2**30  # of addresses, which libraries reserve generously
RESIDENT_MIB = 1500
SECONDS_PER_INPUT = 20
SECONDS_TO_START = 120  # and to end, on a busy machine
NO_END = 1000
LARGEST_INPUT = 2**17


def main() -> int:
    """Attack the readers one after the other and print the table; 1 if anything was found."""
    from tests.hostile.readers import READERS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="of all readers together (default 20)")
    parser.add_argument(
        "--readers", default=",".join(READERS), help="which, separated by commas; default: all"
    )
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="for findings, corpus and table")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the time")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.child, options.out, options.scratch, options.seconds, options.seed)
        return 0
    chosen = options.readers.split(",")
    lines = []
    for name in chosen:
        seconds = options.minutes * 60 / len(chosen)
        lines.append(_campaign(name, options.out.absolute() / name, seconds, options.seed))
        print(_row(lines[-1]), flush=True)
    (options.out / "campaign.json").write_text(json.dumps(lines, indent=1) + "\n")
    return int(any(line["findings"] for line in lines))


def _row(line: dict[str, Any]) -> str:
    return (
        f"{line['reader']:<18} {line['inputs']:>9,} inputs  {line['cpu_seconds'] / 3600:6.2f} CPU-h  "
        f"{line['peak_mib']:>5} MiB  {len(line['findings'])} findings"
    )


def _campaign(name: str, place: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Run children on one reader until the time is over: a hang or a crash ends a child, not the campaign."""
    for part in ("corpus", "findings"):
        (place / part).mkdir(parents=True, exist_ok=True)
    inputs, deadline, round_ = 0, time.monotonic() + seconds, 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    while (left := deadline - time.monotonic()) > 1 and round_ < 200:
        (place / "inputs").write_text("0")
        command = [sys.executable, "-m", "tests.hostile.campaign", "--child", name, "--out", str(place)]
        command += ["--seconds", str(left), "--seed", str(seed + round_)]
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        with (
            tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory) as scratch,
            tempfile.TemporaryFile() as log,
        ):
            command += ["--scratch", scratch]
            try:
                done = subprocess.run(
                    command, stdout=log, stderr=log, timeout=left + SECONDS_TO_START, preexec_fn=_limit
                ).returncode
            except subprocess.TimeoutExpired:
                done = NO_END
            log.seek(0)
            text = log.read()[-20_000:].decode("utf-8", "replace")
        read = int((place / "inputs").read_text() or 0)
        inputs += read
        if done != 0 and not (done == NO_END and read == 0):  # a busy machine did not even begin
            _keep_crash(place, done, text)
        round_ += 1
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "reader": name,
        "inputs": inputs,
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "peak_mib": after.ru_maxrss // 1024,
        "guided": importlib.util.find_spec("atheris") is not None,
        "findings": sorted(one.name for one in (place / "findings").glob("*.txt")),
    }


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _keep_crash(place: Path, code: int, log: str) -> None:
    """Keep the input that ended a child, under what ended it."""
    why = re.search(r"ERROR: libFuzzer: ([\w-]+)", log)
    kind = why[1] if why else f"exit-{code}"
    last = place / "last-input"
    data = last.read_bytes() if last.exists() else b""
    _record(place, kind, data, log[-4000:])


def _record(place: Path, kind: str, data: bytes, text: str) -> None:
    name = re.sub(r"[^\w.-]+", "-", kind)[:120]
    if not (place / "findings" / f"{name}.txt").exists():
        (place / "findings" / f"{name}.bin").write_bytes(data)
        (place / "findings" / f"{name}.txt").write_text(text)


# --- in the child ---------------------------------------------------------------------------------------------


def _child(name: str, place: Path, scratch: Path, seconds: float, seed: int) -> None:
    """Attack one reader for some seconds in this process."""
    atheris = None
    if importlib.util.find_spec("atheris") is not None:
        import atheris  # type: ignore[no-redef, import-not-found]
    with (
        contextlib.nullcontext()
        if atheris is None
        else atheris.instrument_imports(
            include=["tasks", "checks", "zipfile", "gzip", "tomllib"], exclude=_compiled()
        )
    ):
        import checks.gate  # noqa: F401 - so that it is instrumented
        from checks.registry import registered
        from tasks.data import expand  # noqa: F401
        from tests.hostile.readers import READERS, attack

        registered()
    reader = READERS[name]
    count = 0
    begin = time.monotonic()

    def one_input(data: bytes) -> None:
        nonlocal count
        if time.monotonic() - begin > seconds and count >= 20:
            (place / "inputs").write_text(str(count))
            os._exit(0)
        count += 1
        (place / "last-input").write_bytes(data)
        if count % 20 == 0:
            (place / "inputs").write_text(str(count))
        try:
            attack(reader, data, scratch)
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt | SystemExit):
                raise
            _record(place, _kind(problem), data, _text(problem))

    try:
        seeds = reader.seeds()
        for data in seeds:
            one_input(data)
            (place / "corpus" / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        if atheris is None:
            rng = random.Random(seed)
            while time.monotonic() - begin < seconds:
                one_input(reader.mutate(rng.choice(seeds), rng))
            return

        def mutate(data: bytes, most: int, number: int) -> bytes:
            rng = random.Random(number)
            if rng.random() < 0.25:
                return atheris.Mutate(data, most)
            return reader.mutate(data, rng)[:most]

        left = max(1, int(seconds - (time.monotonic() - begin)))
        limits = [f"-rss_limit_mb={RESIDENT_MIB}", f"-timeout={SECONDS_PER_INPUT}", f"-max_total_time={left}"]
        limits += [f"-seed={seed % 2**31}", f"-max_len={LARGEST_INPUT}", "-print_final_stats=0"]
        limits += [f"-artifact_prefix={place}/findings/artifact-"]
        atheris.Setup(["fuzz", *limits, str(place / "corpus")], one_input, custom_mutator=mutate)
        atheris.Fuzz()
    finally:
        (place / "inputs").write_text(str(count))


def _compiled() -> list[str]:
    """Return the modules that numba compiles: it would have to compile the counters of coverage, too."""
    root = Path(__file__).parents[2]
    files = [file for package in ("tasks", "checks") for file in (root / package).rglob("*.py")]
    return [
        ".".join(file.relative_to(root).with_suffix("").parts)
        for file in files
        if "numba" in file.read_text(encoding="utf-8")
    ]


def _kind(problem: BaseException) -> str:
    """Return what distinguishes findings: the exception and the last line of ours that was running."""
    import traceback

    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if re.search(r"/(tasks|checks)/", frame.filename)] or frames
    where = f"{Path(own[-1].filename).parent.name}-{Path(own[-1].filename).name}-{own[-1].lineno}"
    text = f"-{problem}" if type(problem).__name__ == "Finding" else ""
    return f"{type(problem).__name__}-{where}{text}"[:110]


def _text(problem: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(problem))[-6000:]


def lines_of(place: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a finished campaign."""
    yield from json.loads((place / "campaign.json").read_text())


if __name__ == "__main__":
    sys.exit(main())
