"""Judge data: hold every check, attack and measure that stands between a candidate and its publication.

The spine (gate, registry, result, stats, expectations) lies here, everything else in a room. A room imports from the
rooms before it in this order: evidence; history; recovery; reconstruction; linkage; inference; privacy, attacks, series
and utility (the checks, one per file). Of tasks, checks import config, store, engine, errors and formats only: a judge
that shares code with what it judges confirms its faults.
"""

import tasks  # noqa: F401 - chooses the shared cache of compiled kernels before numba is imported
