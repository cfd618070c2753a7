"""Hold the campaign of real faults: `python -m benchmarks.faults` injects each on real processes, disks and networks.

It lies here and not in tests/: it takes an hour, needs root (mounts, network namespaces, a clock that is moved) and
yields figures, which docs/reliability.md shows. One module per kind of fault; what they share is in `ground`.
"""
