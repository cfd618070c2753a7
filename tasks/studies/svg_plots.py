"""Write figures as SVG files whose bytes depend on the data only."""

from pathlib import Path
from typing import Any


def open_pyplot(directory: Path) -> Any:
    """Return pyplot with a backend that needs no display, and make the directory for its figures."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "murmuration"
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    return pyplot


def save_figure(pyplot: Any, path: Path) -> None:
    """Write the current figure and close it."""
    pyplot.tight_layout()
    pyplot.savefig(path, metadata={"Date": None})
    pyplot.close()
