"""Run schedules: `python -m tests.simulation [--schedules N] [--first SEED] [--seed SEED]`; exits 1 where one fails.

`--seed` runs one schedule and prints its trace. `--processes` divides the seeds among processes of the system.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.simulation.machine import simulated
from tests.simulation.schedule import Outcome, Simulator


def run_range(first: int, count: int) -> tuple[list[Outcome], dict[str, float]]:
    """Run seeds one after the other; return the outcomes that found something, and totals."""
    simulator, found = Simulator(), []
    totals = {"schedules": 0, "steps": 0, "kill": 0, "power": 0, "cpu_seconds": 0.0, "releases": 0}
    with simulated(simulator.machine):
        simulator.prepare()
        begun = time.process_time()
        for seed in range(first, first + count):
            outcome = simulator.run(seed)
            totals["schedules"] += 1
            totals["steps"] += outcome.steps
            totals["releases"] += outcome.releases
            for kind, number in outcome.crashes.items():
                totals[kind] += number
            if outcome.problem:
                found.append(outcome)
                print(f"seed {seed}: {outcome.problem}", file=sys.stderr, flush=True)
        totals["cpu_seconds"] = time.process_time() - begun
    return found, totals


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one schedule and print its trace")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the totals to this file")
    asked = parser.parse_args()
    if asked.seed is not None:
        found, totals = run_range(asked.seed, 1)
        for line in found[0].trace if found else []:
            print(*line)
    else:
        share = -(-asked.schedules // asked.processes)
        parts = [
            (asked.first + n * share, min(share, asked.schedules - n * share)) for n in range(asked.processes)
        ]
        if asked.processes == 1:
            done = [run_range(*parts[0])]
        else:
            with ProcessPoolExecutor(asked.processes) as pool:
                done = list(pool.map(run_range, *zip(*parts, strict=True)))
        found = [one for part, _ in done for one in part]
        totals = {key: sum(part[key] for _, part in done) for key in done[0][1]}
    totals["per_cpu_second"] = round(totals["schedules"] / max(totals["cpu_seconds"], 1e-9), 1)
    answer = {**totals, "first_seed": asked.first, "failed": [one.seed for one in found]}
    print(json.dumps(answer | {"failed": len(found)}))
    if asked.json:
        asked.json.write_text(json.dumps(answer, indent=1) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
