"""Count verdicts over data shapes and secrets: does the gate pass good releases whatever the secret is?

    python -m benchmarks.verdicts --secrets 8 --json benchmarks/results/verdicts.json

Each release is made by `murmur run` with the defaults in a store of its own and with a secret that follows from its
number, so that a run can be repeated. `--undefended` makes the release of [Chang2009] instead, without the defences of
docs/decisions/0018-phantom-raters.md. A verdict that depends on the secret invites an owner to try until one passes;
the summary names how many secrets give the more frequent verdict, and which checks refused. Real data sets are read
from MURMUR_DATA and left out, with a line that says so, where they are missing.
"""

import argparse
import collections
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import real_data_directory

SNAPSHOT = "2026-01-01"
REAL = {"ml-100k": "movielens-100k", "ml-1m": "movielens-1m", "jester-1": "jester"}
SYNTHETIC = {
    "very sparse": {"users": 5_000, "items": 2_000, "ratings_per_user": 8.0},
    "more items than users": {"users": 800, "items": 3_000, "ratings_per_user": 60.0},
    "few heavy users": {"users": 400, "items": 500, "ratings_per_user": 150.0},
    # As large as a real set on which the verdict of an earlier gate depended on the secret.
    "few people": {"users": 1_508, "items": 2_071, "ratings_per_user": 23.5},
}
UNDEFENDED = "clip_groups = 1.0\n[padding]\nrank = 16\nphantom_raters = 0\nlevel_only_below = 0\n"


@dataclass(frozen=True)
class Setting:
    """Hold what is the same for all releases of a campaign."""

    k: int
    method: str
    further: str = ""  # lines of the release file (TOML): keys of [privacy], then tables of their own


def release_file(shape: str, setting: Setting) -> str:
    """Return the release file of a shape, with the defaults of a new release but for further settings."""
    if shape in REAL:
        source = f'format = "{REAL[shape]}"\npath = "{real_data_directory() / shape}"'
    else:
        made = "\n".join(f"{key} = {value}" for key, value in SYNTHETIC[shape].items())
        source = f'format = "synthetic"\n[source.synthetic]\n{made}'
    name = shape.replace(" ", "-")
    return (
        f'[release]\nname = "{name}"\nschedule = "0 3 1 * *"\nstart_date = 2026-01-01\n'
        f'[source]\n{source}\n[privacy]\nmethod = "{setting.method}"\nk = {setting.k}\n'
        f"{setting.further}\n"
    )


def run_one(shape: str, secret: int, setting: Setting, work: Path) -> dict[str, Any]:
    """Make one release in a store of its own and return its verdict and figures."""
    place = work / f"{shape.replace(' ', '-')}-{setting.k}-{secret}"
    place.mkdir(parents=True)
    (place / "release.toml").write_text(release_file(shape, setting))
    key = place / "secret"
    key.write_bytes(hashlib.sha256(f"verdicts {secret}".encode()).digest())
    key.chmod(0o600)
    command = [sys.executable, "-m", "tasks.cli", "run", str(place / "release.toml"), "--snapshot", SNAPSHOT]
    done = subprocess.run(
        [*command, "--store", str(place / "store"), "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "MURMUR_SECRET_FILE": str(key)},
        check=False,
    )
    if done.returncode not in (0, 3):
        raise SystemExit(f"{shape}, secret {secret}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    answer = json.loads(done.stdout)
    checks = {check["name"]: check for check in answer["checks"]}
    failed = [name for name, one in checks.items() if not one["passed"] and one["severity"] == "gate"]
    return {
        "shape": shape,
        "secret": secret,
        **asdict(setting),
        "status": answer["status"],
        "failed": failed,
        "figures": {
            name: {
                key: one[key]
                for key in ("observed", "threshold", "ci_low", "ci_high", "applicable", "detail")
            }
            for name, one in checks.items()
        },
        "utility": answer["utility"],
        "seconds": answer["seconds"],
        "peak_rss_bytes": answer["peak_rss_bytes"],
    }


def summarise(runs: list[dict[str, Any]]) -> list[str]:
    """Return a line for each shape: how many of its secrets agree, and what refused the others."""
    lines = []
    for shape in dict.fromkeys(run["shape"] for run in runs):
        own = [run for run in runs if run["shape"] == shape]
        status = collections.Counter(run["status"] for run in own)
        verdict, agree = status.most_common(1)[0]
        refused = collections.Counter(name for run in own for name in run["failed"])
        named = ", ".join(f"{name} ({count})" for name, count in refused.most_common()) or "none"
        lines.append(f"{shape}: {verdict} for {agree} of {len(own)} secrets; refused by: {named}")
    return lines


def main() -> int:
    """Run all shapes and secrets; the exit code is 1 where fewer than seven of eight verdicts of a shape agree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__)
    parser.add_argument("--shapes", default=",".join((*REAL, *SYNTHETIC)))
    parser.add_argument("--secrets", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="number of the first secret")
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--method", default="predictive-padded")
    parser.add_argument("--undefended", action="store_true", help="without any defence against the attacks")
    text = "further lines of the release file (TOML), such as '[microaggregation]\\nimputation = \"central\"'"
    parser.add_argument("--settings", default="", help=text)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    further = UNDEFENDED if asked.undefended else asked.settings.replace("\\n", "\n")
    setting = Setting(asked.k, asked.method, further)
    runs = []
    with tempfile.TemporaryDirectory() as work:
        for shape in asked.shapes.split(","):
            if shape in REAL and not (real_data_directory() / shape).exists():
                print(f"{shape}: left out, not in {real_data_directory()}", file=sys.stderr)
                continue
            for secret in range(asked.first, asked.first + asked.secrets):
                runs.append(run_one(shape, secret, setting, Path(work)))
                one = runs[-1]
                print(f"{shape}, secret {secret}: {one['status']} {' '.join(one['failed'])}", file=sys.stderr)
                if asked.json:
                    asked.json.write_text(json.dumps({"runs": runs, "summary": summarise(runs)}, indent=1))
    for line in summarise(runs):
        print(line)
    return 0 if runs and all(_stable(runs, shape) for shape in {run["shape"] for run in runs}) else 1


def _stable(runs: list[dict[str, Any]], shape: str) -> bool:
    own = collections.Counter(run["status"] for run in runs if run["shape"] == shape)
    return max(own.values()) >= 7 / 8 * sum(own.values())


if __name__ == "__main__":
    sys.exit(main())
