"""README.md of a release: what the data is, how it was made, how to load it, what it cannot do."""

from pathlib import Path
from string import Template

from checks.release import Release
from checks.report.page import METHODS, OTHER_METHOD
from tasks.store import write_bytes

_TEXT = Template('''# $release, snapshot $snapshot

$users people, $items items, $groups groups. $about

Nobody in these files can be told from at least $others others: at least $k people share every published
profile.
Ratings are not what anybody said; they describe groups. Method: `$method`.

## Files

| file | holds |
|---|---|
| `groups.parquet` | `group`, `size`, `items` (positions in items.parquet; null = all), `ratings` (codes) |
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
    """The ratings of one group, by item."""
    values = np.frombuffer(row["ratings"], dtype=manifest["rating_encoding"])
    if manifest["rating_encoding"] != "float32":
        values = manifest["rating_scale"][0] + values * manifest["rating_step"]
    return pd.Series(values, index=items if row["items"] is None else items[row["items"]])


first = groups.iloc[0]
print(profile(first).sort_values(ascending=False).head())
print(members[members["group"] == first["group"]])
```

The codes are little-endian. `rating = rating_scale[0] + code * rating_step` for uint8 and uint16.

## Limits

- All members of a group have the same profile; differences between them are gone for good.
- $padding
- Fewer than $c real ratings never make a published value; such values are predictions.
- The promises hold for this release by itself. Other releases about the same people: $series.
- Whether the profiles serve your purpose is measured in report.html on ratings held out beforehand.
''')


def write_readme(release_dir: Path) -> None:
    """Write README.md into the release's directory."""
    release = Release(release_dir)
    manifest, counts = release.manifest, release.manifest["counts"]
    padding = (
        "Every group has every item: that an item is listed does not mean that anybody in the group rated it."
        if release.complete
        else "An item of a group was rated by at least one member or added on purpose; most "
        "members did not rate it."
    )
    text = _TEXT.substitute(
        release=manifest["release"],
        snapshot=manifest["snapshot"],
        method=manifest["method"],
        about=METHODS.get(manifest["method"], OTHER_METHOD),
        users=f"{counts['users']:,}",
        items=f"{counts['items']:,}",
        groups=f"{counts['groups']:,}",
        k=release.k,
        others=release.k - 1,
        c=release.min_contributors,
        series="checked as a series" if manifest["series"] == "checked" else "not examined",
        padding=padding,
    )
    write_bytes(release_dir / "README.md", text.encode())
