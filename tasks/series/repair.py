"""Make a repaired release: what a release offers, without the groups that were withdrawn since.

Its profiles have the bytes of their first publication; numbers and pseudonyms are drawn anew, as in every release. Who
holds both releases sees which groups went. The checks in its manifest are those of the release it replaces: every group
of it was judged there.
"""

import datetime
import html
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.data import profiles, support
from tasks.data.candidate import Candidate
from tasks.data.croissant import FILE as CROISSANT
from tasks.data.croissant import renew_croissant
from tasks.errors import MurmurError
from tasks.keys import OwnerKey
from tasks.series.carried import as_of, files_of, support_of, write_whole
from tasks.series.entry import GROUP_COLUMNS, write_entry
from tasks.series.ledger import Ledger
from tasks.series.publication import ENTRY, OWNER_FILES, Places, publish_within
from tasks.series.row_store import RowStore
from tasks.series.rows import PublishedRelease, directory_of
from tasks.series.tombstones import private_place
from tasks.store import Store, digest, make_private, owner_only, read_json, remove, restrict, write_json

PLACE = "repair"  # directory of the owner's in which the candidate is made
COPIED = ("items.parquet", "checks.json")
MADE = ("groups.parquet", "members.parquet", support.FILE, "README.md", "report.html", CROISSANT)
SAME_FILES = ("utility", "verdict.json", "validation.json", "report.html", "series.json", "refused_cohort")

Examine = Callable[[Path], list[str]]  # returns which checks a candidate fails, from its files alone


class CannotRepair(MurmurError):
    """Report that no valid release is left of one from which groups were withdrawn."""


def publish_repaired(
    ledger: Ledger, store: Store, release: PublishedRelease, key: OwnerKey, code: str, examine: Examine
) -> Path:
    """Publish the next revision of a release with the groups that are still live; return its directory.

    Call it under the store's lock. Raises CannotRepair where nothing is left, or what is left fails `examine`.
    """
    revision = 1 + max(
        one.revision
        for one in ledger.releases()
        if (one.name, one.snapshot) == (release.name, release.snapshot)
    )
    name = directory_of(release.snapshot, revision)
    private = store.root / "private" / release.name / name
    make_private(private, below=store.root)
    remove(private / PLACE)  # of an earlier attempt
    try:
        with owner_only():
            made = _make(ledger, store, release, revision, key, private / PLACE)
        if failed := examine(made.public):
            raise CannotRepair(f"what is left of it fails {', '.join(failed)}")
        published = store.root / "published" / release.name / name
        places = Places(made.public, made.private, published, private)
        publish_within(
            ledger,
            store,
            places,
            read_json(made.public / "manifest.json"),
            lambda done, total: None,
            code=code,
        )
    finally:
        remove(private / PLACE)
        if not any(private.iterdir()):
            private.rmdir()
    return published


def _make(
    ledger: Ledger, store: Store, release: PublishedRelease, revision: int, key: OwnerKey, place: Path
) -> Candidate:
    source, owner = files_of(store, release), private_place(store, release)
    if source is None or not (source / "manifest.json").exists():
        raise CannotRepair("its files are gone")
    manifest = read_json(source / "manifest.json")
    if unknown := set(manifest["files"]) - {*COPIED, *MADE}:
        raise CannotRepair(f"it has {len(unknown)} files of a kind that cannot be repaired")
    live = {group.id for group in ledger.groups(state="live")}
    kept = {number: group for group, number in ledger.listed(release.id).items() if group in live}
    if not kept:
        raise CannotRepair("no group is left of it")
    made = Candidate(place / "candidate", place / "private")
    for directory in (place, made.public, made.private):
        directory.mkdir()
    name = directory_of(release.snapshot, revision)
    old, new = _write_groups(source, made, manifest, kept, key.rng("repair", release.name, name))
    _write_people(owner, made, dict(zip(old.tolist(), new.tolist(), strict=True)), key, (release.name, name))
    if (counts_file := support_of(source)) is not None:
        _write_support(counts_file, made.public / support.FILE, old, new)
    for file in COPIED:
        shutil.copyfile(source / file, made.public / file)
    left_out = len(ledger.listed(release.id)) - len(kept)
    counts = _counts(made.public, manifest)
    _write_words(source, made.public, _note(release, revision, left_out, counts))
    if CROISSANT in manifest["files"]:
        renew_croissant(source, made.public, name)
    files = {file: digest(made.public / file) for file in manifest["files"]}
    facts = {"number": revision, "replaces": release.manifest, "groups_left_out": left_out}
    changed = {"counts": counts, "files": files, "revision": facts}
    if "as_of" in manifest:  # the group with the newest ratings may be gone
        changed["as_of"] = as_of(ledger, kept.values(), release.snapshot)
    told = {key: value for key, value in manifest.items() if key not in ("created_at", "code_version")}
    write_json(made.public / "manifest.json", told | changed)
    _copy_owner_files(owner, made.private)
    carried = [(kept[int(a)], int(b)) for a, b in zip(old, new, strict=True)]
    _write_entry(ledger, release, made.private / ENTRY, carried)
    restrict(place)
    return made


def _write_groups(
    source: Path,
    made: Candidate,
    manifest: dict[str, Any],
    kept: dict[int, int],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Write groups.parquet; return the numbers of the groups in the old release and in this one."""
    dtype = np.dtype(manifest["rating_encoding"]).newbyteorder("<")
    rows = RowStore(made.private / "rows", dtype)
    old = rows.add_published(source, np.array(sorted(kept)))
    if len(old) != len(kept):
        raise MurmurError(
            "groups that the ledger lists are not in the release's files",
            where=str(source),
            remedy="restore the release from a backup",
        )
    new = rng.permutation(len(old)).astype(np.int32)
    n_items = pq.read_metadata(source / "items.parquet").num_rows
    write_whole(made.public / "groups.parquet", rows, new, n_items)
    remove(made.private / "rows")
    return old, new


def _write_support(source: Path, target: Path, old: np.ndarray, new: np.ndarray) -> None:
    """Write the counts of raters of the groups that are kept, unchanged."""
    published = support.Support.read(source)
    number = np.full(int(max(old.max(initial=0), published.group.max(initial=0))) + 1, -1, np.int32)
    number[old] = new
    published.placed(number, np.arange(int(published.item.max(initial=-1)) + 1, dtype=np.int32)).write(target)


def _write_people(
    owner: Path, made: Candidate, number_of: dict[int, int], key: OwnerKey, named: tuple[str, str]
) -> None:
    table = pq.read_table(owner / "membership.parquet")
    labels = np.array([number_of.get(one, -1) for one in table.column("group").to_pylist()], np.int32)
    ids = table.column("user").combine_chunks().filter(pa.array(labels >= 0))
    pseudonyms = pa.array(key.pseudonyms(*named, ids.to_pylist()), pa.string())
    group = pa.array(labels[labels >= 0], pa.int32())
    people = pa.table({"user": ids, "pseudonym": pseudonyms, "group": group}).sort_by("pseudonym")
    pq.write_table(people, made.private / "membership.parquet")
    public = pa.table({"user": people.column("pseudonym"), "group": people.column("group")})
    pq.write_table(public, made.public / "members.parquet")


def _counts(public: Path, manifest: dict[str, Any]) -> dict[str, int]:
    dtype = np.dtype(manifest["rating_encoding"]).newbyteorder("<")
    n_items = manifest["counts"]["items"]
    return {
        "users": pq.read_metadata(public / "members.parquet").num_rows,
        "items": n_items,
        "groups": sum(profiles.row_groups(public / "groups.parquet")),
        "ratings": profiles.count_ratings(public / "groups.parquet", n_items, dtype),
    }


def _note(release: PublishedRelease, revision: int, left_out: int, counts: dict[str, int]) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        f"Repaired release {directory_of(release.snapshot, revision)} ({today}): it replaces {release.directory}, "
        f"which was withdrawn because people left. {left_out:,} of its groups are left out; all others are unchanged. "
        f"It has {counts['users']:,} people in {counts['groups']:,} groups. All other figures below, and the checks, "
        f"are those of {release.directory}."
    )


def _write_words(source: Path, public: Path, note: str) -> None:
    """Copy README.md and report.html, with the note in front."""
    readme = (source / "README.md").read_text(encoding="utf-8")
    (public / "README.md").write_text(f"> {note}\n\n{readme}", encoding="utf-8")
    page = (source / "report.html").read_text(encoding="utf-8")
    words = f"<p><strong>{html.escape(note)}</strong></p>"
    before, body, after = page.partition("<body>")
    (public / "report.html").write_text(
        before + body + words + after if body else words + page, encoding="utf-8"
    )


def _copy_owner_files(owner: Path, private: Path) -> None:
    """Copy what else the owner keeps about a release; made-up ratings only of people who are still in it."""
    for name in SAME_FILES:
        assert name in OWNER_FILES
        if (owner / name).is_dir():
            shutil.copytree(owner / name, private / name)
        elif (owner / name).exists():
            shutil.copyfile(owner / name, private / name)
    if (owner / "added.parquet").exists():
        here = pq.read_table(private / "membership.parquet", columns=["user", "pseudonym"])
        added = pq.read_table(owner / "added.parquet")
        place = pc.index_in(added.column("user"), value_set=here.column("user").combine_chunks())
        added = added.filter(pc.is_valid(place))
        pseudonym = here.column("pseudonym").take(pc.drop_null(place))
        column = added.column_names.index("pseudonym")
        pq.write_table(added.set_column(column, "pseudonym", pseudonym), private / "added.parquet")


def _write_entry(
    ledger: Ledger, release: PublishedRelease, place: Path, carried: list[tuple[int, int]]
) -> None:
    nothing = pa.table({name: pa.nulls(0, pa.int32()) for name in GROUP_COLUMNS})
    write_entry(
        place,
        head=ledger.head,
        mode=release.mode,
        k=release.k,
        source=release.source,
        population=ledger.population,
        carried=carried,
        groups=nothing,
        persons=(pa.array([], pa.string()), np.empty(0, np.int32), []),
        items=[],
        other_items=[],
    )
