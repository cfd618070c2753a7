"""Let the tests of this folder import what Airflow imports from dags/, with an Airflow home of their own."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

DAGS = Path(__file__).parents[2] / "dags"

# Before Airflow is imported: it makes its home, and reads its configuration, at once.
if "AIRFLOW_HOME" not in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="murmur-airflow-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)

for folder in (DAGS, DAGS / "plugins"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
