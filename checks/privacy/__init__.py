"""Promises of the release, recomputed from the published files. One file per check."""
