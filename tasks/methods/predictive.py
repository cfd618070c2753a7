"""Predictive Anonymization (paper 000, Algorithm 1): pad, group similar users, make each group identical."""

NAMES = ("predictive-padded", "predictive-simple", "predictive-boosted")

STEPS: dict[str, tuple[str, ...]] = {
    "ingest": (),
    "padding": ("ingest",),
    "sampling": ("ingest",),
    "centers": ("ingest", "padding", "sampling"),
    "binning": ("ingest", "padding", "centers"),
    "clustering": ("ingest", "padding", "binning"),
    "homogenization": ("ingest", "padding", "clustering"),
    "diversity": ("ingest", "padding", "clustering", "homogenization"),
}
