"""Run the campaign: `python -m benchmarks.faults [disk|clock|network|killed …] [--rounds N] [--seed S]`.

Figures of each kind go to benchmarks/results/faults-KIND.json, the table of all to docs/reliability.md. Exits 1 where a
trial was not clean.
"""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.faults import page
from benchmarks.faults.ground import opened, save

KINDS = {"disk": 1, "clock": 1, "network": 1, "killed": 3}  # rounds of `make faults`


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], help="default: all")
    parser.add_argument("--rounds", type=int, help="how often each fault is injected (disk: at each step)")
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument(
        "--keep", type=Path, help="directory with the undisturbed release, for a campaign in parts"
    )
    parser.add_argument("--add", action="store_true", help="add to the results of earlier parts")
    parser.add_argument(
        "--only", help="steps (disk) or faults (the others) of this part, separated by commas"
    )
    asked = parser.parse_args()
    if os.geteuid() != 0:
        print("the campaign mounts disks and cuts networks: run it as root", file=sys.stderr)
        return 2
    dirty = 0
    for kind in asked.kinds or KINDS:
        chosen = {"steps": asked.only.split(",")} if asked.only else {}
        with opened(asked.seed, asked.keep) as ground:
            try:
                import_module(f"benchmarks.faults.{kind}").campaign(
                    ground, asked.rounds or KINDS[kind], **chosen
                )
            finally:  # what was found is kept, also where a trial ends the campaign
                save(kind, ground, add=asked.add)
            dirty += sum(not trial.is_clean for trial in ground.trials)
    page.write()
    print(f"{dirty} trials were not clean" if dirty else "every trial was clean")
    return 1 if dirty else 0


if __name__ == "__main__":
    sys.exit(main())
