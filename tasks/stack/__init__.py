"""Run PostgreSQL, Airflow and Dask on this machine, for `make demo`, `make ui` and the tests.

Production uses docker/compose.yaml instead. May import config, engine, series (`demo` shows what was published),
store and errors of tasks; `warm_kernels` also runs the pipeline.
"""

from tasks.stack.client import AirflowClient, ApiError
from tasks.stack.processes import StackError
from tasks.stack.supervisor import Stack

__all__ = ["AirflowClient", "ApiError", "Stack", "StackError"]
