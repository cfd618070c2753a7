"""Shows release files that cannot be used as an import error in the Airflow UI, by file and key.

A file of its own, because Airflow deactivates every DAG of a file with an import error: release.py draws the
good ones undisturbed. This file never holds a DAG.
"""

from pathlib import Path

from tasks.errors import UsageError
from tasks.releases import find

_errors = find(Path(__file__).parent / "releases")[1]
if _errors:
    raise UsageError("\n".join(str(error) for error in _errors))
