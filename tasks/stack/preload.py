"""Import all steps, and with them everything they need.

Airflow forks its workers from a server process that has loaded this module, and Dask's workers load it at their start;
otherwise each task, and the first step on each worker, would spend seconds on the same imports.
"""

from importlib import import_module
from pkgutil import iter_modules

import tasks.steps

for _module in iter_modules(tasks.steps.__path__):
    import_module(f"tasks.steps.{_module.name}")
