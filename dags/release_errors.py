"""Show unusable release files as an import error in the Airflow UI, by file and key.

This is a separate file because Airflow deactivates every DAG of a file with an import error: release.py still defines
the DAGs of all valid release files. This file never defines a DAG.
"""

from pathlib import Path

from tasks.config.release_files import find
from tasks.errors import UsageError

_errors = find(Path(__file__).parent / "releases")[1]
if _errors:
    raise UsageError("\n".join(str(error) for error in _errors))
