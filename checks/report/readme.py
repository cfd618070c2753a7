"""README.md of a release: what the data is, how it was made, how to load it, what it cannot do."""

from pathlib import Path
from string import Template

from checks.release import Release
from checks.report.page import METHODS, OTHER_METHOD
from tasks.store import write_bytes

_TEXT = Template('''# $release, snapshot $snapshot

$users people, $items items, $groups $records. $about

$promise Method: `$method`.

## Files

| file | holds |
|---|---|
| `groups.parquet` | `group`, `size`, `items` (positions in items.parquet; null = all), `ratings` ($values) |
| `members.parquet` | `user` (a pseudonym made for this release alone) and `group` |
| `items.parquet` | `item`, in position order |
| `manifest.json` | promises, counts, scale, digests of all files, results of all checks |
| `checks.json`, `report.html` | what was examined before publication, for programs and for people |

## Loading

```python
import json
from pathlib import Path

import numpy as np
import pandas as pd

release = Path(".")  # the directory of this file
manifest = json.loads((release / "manifest.json").read_text())
items = pd.read_parquet(release / "items.parquet")["item"].to_numpy()
groups = pd.read_parquet(release / "groups.parquet")
members = pd.read_parquet(release / "members.parquet")


def profile(row):
    """The values of one group, by item."""
    values = np.frombuffer(row["ratings"], dtype=manifest["rating_encoding"])
    if manifest["rating_encoding"] != "float32":
        values = manifest["rating_scale"][0] + values * manifest["rating_step"]
    return pd.Series(values, index=items if row["items"] is None else items[row["items"]])


first = groups.iloc[0]
print(profile(first).sort_values(ascending=False).head())
print(members[members["group"] == first["group"]])
```

$reading

## Limits

$limits
- What a record tells of people beside ratings (gender, age, …) is measured in report.html where that is known, and
  bounded only for attributes the owner protects.
- Whether the profiles serve your purpose is measured in report.html on ratings held out beforehand.
''')

_SHARED = """Nobody in these files can be told from at least $others others: at least $k people share every published
profile.
Ratings are not what anybody said; they describe groups."""
_SHARED_LIMITS = """\
- All members of a group have the same profile; differences between them are gone for good.
- $holding
- Fewer than $c real ratings never make a published value; such values are predictions.
- The promises hold for this release by itself. Other releases about the same people: $series."""

# What single people's records hold, what protects their owners, and what a user of them must know, by method.
_SINGLE = """Every record (a group of one) is one person's, $with_what. Nobody hides among
others here: what protects people is $protection, and report.html says how far attacks
came all the same."""
_SINGLE_WORDS = {
    "suppression": {
        "with_what": "with the ratings the person gave",
        "protection": "what was left out",
        "caution": "Items that few people rated are missing, and so are people who rated nothing else.",
        "together": "what one leaves out another may hold",
    },
    "obfuscation": {
        "with_what": "with the ratings the person gave and made-up ones",
        "protection": "that nobody is told which are which",
        "caution": "Some ratings are made up. Train on them, do not read them one by one.",
        "together": "what is in one and not in the other may be made up",
    },
}
_DISGUISED = {
    "with_what": "with other values than the person gave",
    "protection": "that values cannot be trusted one by one",
    "caution": "A single value tells little; what many of them have in common tells something. Train on them, do not "
    "read\n  them.",
    "together": "noise that is\n  drawn anew can be averaged away",
}
_SINGLE_LIMITS = """\
- $caution
- $holding
- Nothing is promised about this release together with others about the same people ($series): $together."""

_CODES = "The codes are little-endian. `rating = rating_scale[0] + code * rating_step` for uint8 and uint16."
_NUMBERS = (
    "The numbers are little-endian float32, the ratings themselves; noise may carry them off the scale."
)
_Z_SCORES = """\
The numbers are little-endian float32 z-scores, not ratings: how far a rating lies above (below: negative) the mean of
its owner, in the owner's own standard deviations, plus noise. Values of different people can be compared as they are.
`rating_scale` is the scale of the ratings they were made from; mean and deviation of a person are not published. People
who know their own turn a prediction into a rating: `mean + deviation * z`."""


def write_readme(release_dir: Path, changed: str = "") -> None:
    """Write README.md into the release's directory; `changed`: what was done to the ratings first, in words."""
    release = Release(release_dir)
    manifest, counts = release.manifest, release.manifest["counts"]
    single = bool((release.sizes == 1).all())
    words = {
        "release": manifest["release"],
        "snapshot": manifest["snapshot"],
        "method": manifest["method"],
        "about": f"{METHODS.get(manifest['method'], OTHER_METHOD)} {changed}".strip(),
        "users": f"{counts['users']:,}",
        "items": f"{counts['items']:,}",
        "groups": f"{counts['groups']:,}",
        "records": "records, one person's each" if single else "groups",
        "k": release.k,
        "others": release.k - 1,
        "c": release.min_contributors,
        "series": "checked as a series" if manifest["series"] == "checked" else "not examined",
        "holding": _holding(release, single),
        **_SINGLE_WORDS.get(manifest["method"], _DISGUISED),
    }
    numbers = _Z_SCORES if manifest["unit"] == "z-score" else _NUMBERS
    coded = manifest["rating_encoding"] != "float32"
    text = _TEXT.substitute(
        words,
        promise=Template(_SINGLE if single else _SHARED).substitute(words),
        limits=Template(_SINGLE_LIMITS if single else _SHARED_LIMITS).substitute(words),
        reading=_CODES if coded else numbers,
        values="codes" if coded else f"{manifest['unit']}s",
    )
    write_bytes(release_dir / "README.md", text.encode())


def _holding(release: Release, single: bool) -> str:
    """What it means that a record holds an item."""
    record, nobody = ("record", "its owner") if single else ("group", "anybody in the group")
    if release.complete:
        return f"Every {record} has every item: that an item is listed does not mean that {nobody} rated it."
    if single and (
        release.unit == "z-score" or release.manifest["method"] == "suppression"
    ):  # only what was rated
        return "An item of a record was rated by its owner."
    if single:
        return "An item of a record was rated by its owner, unless the method adds items."
    return "An item of a group was rated by at least one member or added on purpose; most members did not rate it."
