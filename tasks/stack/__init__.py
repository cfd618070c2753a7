"""The embedded stack for `make demo`, `make ui` and the tests; production is docker/compose.yaml."""

from tasks.stack.client import AirflowClient, ApiError
from tasks.stack.processes import StackError
from tasks.stack.supervisor import Stack

__all__ = ["AirflowClient", "ApiError", "Stack", "StackError"]
