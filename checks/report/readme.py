"""Write README.md of a release: what the data are, how they were made, how to load them and what limits they have."""

from pathlib import Path

import pyarrow.parquet as pq

from checks.evidence.method_rules import rules_of
from checks.evidence.release import Release
from checks.report.rendering import render_markdown
from checks.report.words import MethodWords
from tasks.store import write_bytes


def write_readme(release_dir: Path, method: MethodWords) -> None:
    """Write README.md into the release's directory."""
    release = Release(release_dir)
    manifest = release.manifest
    if rules_of(manifest["method"]).is_synthetic:
        about = {"manifest": manifest, "counts": manifest["counts"], "privacy": manifest["privacy"]}
        text = render_markdown("synthetic_README.md.j2", method=method, **about)
        write_bytes(release_dir / "README.md", text.encode())
        return
    text = render_markdown(
        "README.md.j2",
        release=release,
        manifest=manifest,
        counts=manifest["counts"],
        method=method,
        single=bool((release.sizes == 1).all()),
        coded=manifest["rating_encoding"] != "float32",
        series="see the check `series` in checks.json",
        details=[f"`{name}`" for name in pq.read_schema(release_dir / "items.parquet").names[1:]],
    )
    write_bytes(release_dir / "README.md", text.encode())
