"""Run compose.yaml for real (`make containers`), where it is asked for: it takes a quarter of an hour."""

import os
import signal

import pytest

from docker.containers import STOPPING
from docker.run_topology import main

ASKED = os.environ.get("MURMUR_CONTAINERS")


@pytest.mark.stack
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not ASKED, reason="takes a quarter of an hour: MURMUR_CONTAINERS=1, or `make containers`")
def test_the_topology_publishes_what_murmur_run_publishes(capfd):
    before = {number: signal.getsignal(number) for number in STOPPING}
    try:
        assert main([]) == 0, capfd.readouterr().out
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
