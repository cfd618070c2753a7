"""Write what a study found as one self-contained HTML file that loads nothing from anywhere."""

import os
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tasks.errors import UsageError
from tasks.store import write_bytes


def require_writable(page: Path) -> Path:
    """Refuse a page that cannot be written before the work, not after it."""
    if page.is_dir() or not os.access(page.parent, os.W_OK):
        raise UsageError(
            "no page can be written there",
            where=f"--html {page}",
            remedy="name a file in a directory of yours that exists",
        )
    return page


def write_html(template: str, path: Path, **values: Any) -> None:
    """Write a page from a template of tasks/studies/templates."""
    environment = Environment(
        loader=PackageLoader("tasks.studies"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    write_bytes(path, environment.get_template(template).render(**values).encode())
    path.chmod(0o644)  # no secret is in it
