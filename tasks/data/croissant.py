"""Write croissant.json: the files of a release for tools that read Croissant 1.1 metadata, with its RAI fields.

It is made of the manifest alone, so that a repaired release gets its own, and says nothing that the manifest does not.
"""

import json
from pathlib import Path
from typing import Any

from tasks.store import digest, read_json, write_bytes

FILE = "croissant.json"
VERSION = "http://mlcommons.org/croissant/1.1"
PARQUET = "application/x-parquet"
DATE_LENGTH = len("YYYY-MM-DD")
# The columns of each file: name, Croissant type, whether it is a list, and what it holds.
COLUMNS: dict[str, tuple[tuple[str, str, bool, str], ...]] = {
    "groups.parquet": (
        ("group", "sc:Integer", False, "Number of the record; it means nothing."),
        ("size", "sc:Integer", False, "How many people share the record."),
        ("items", "sc:Integer", True, "Positions in items.parquet, ascending; null: every item, in order."),
        (
            "ratings",
            "sc:Text",
            False,
            "The ratings, one for each item, as bytes (rating_encoding in manifest.json).",
        ),
    ),
    "members.parquet": (
        ("user", "sc:Text", False, "A pseudonym that was made for this release alone."),
        ("group", "sc:Integer", False, "The record of this person."),
    ),
    "items.parquet": (
        ("item", "sc:Text", False, "The item's id in the source's catalogue, in position order."),
    ),
    "support.parquet": (
        ("group", "sc:Integer", False, "Number of the record."),
        ("item", "sc:Integer", False, "Position in items.parquet."),
        (
            "raters",
            "sc:Integer",
            False,
            "How many members rated the item, rounded down; the highest value of an item: that many or more.",
        ),
    ),
}
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def write_croissant(public: Path, publishes: str) -> None:
    """Write croissant.json of the release in `public`; `publishes` says in a sentence what a record is."""
    _write(public, metadata(public, publishes))


def renew_croissant(source: Path, public: Path, directory: str) -> None:
    """Write croissant.json of a repaired release: that of the release it replaces, with its own name and digests."""
    known = read_json(source / FILE)
    known["name"] = known["name"].replace(directory[:DATE_LENGTH], directory)
    known["distribution"] = [_file(public, one["name"]) for one in known["distribution"]]
    _write(public, known)


def _write(public: Path, known: dict[str, Any]) -> None:
    write_bytes(
        public / FILE, f"{json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True)}\n".encode()
    )


def metadata(public: Path, publishes: str) -> dict[str, Any]:
    """Return the metadata of the release in `public`, by its manifest."""
    manifest = read_json(public / "manifest.json")
    files = [name for name in COLUMNS if name in manifest["files"]]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": VERSION,
        "name": f"{manifest['release']}-{manifest['snapshot']}",
        "description": f"{publishes} {_scale(manifest)}",
        "datePublished": manifest["snapshot"],
        "version": f"{manifest['schema_version']}.0.0",
        "citeAs": f"{manifest['release']}, snapshot {manifest['snapshot']}, made with Murmuration",
        "isLiveDataset": False,
        **_responsible(manifest, publishes),
        "distribution": [_file(public, name) for name in files],
        "recordSet": [_records(name) for name in files],
    }


def _scale(manifest: dict[str, Any]) -> str:
    low, high = manifest["rating_scale"]
    what = "z-scores of ratings" if manifest["unit"] == "z-score" else "Ratings"
    return f"{what} from {low:g} to {high:g}; README.md says how to load them."


def _responsible(manifest: dict[str, Any], publishes: str) -> dict[str, Any]:
    """Return the fields of the responsible-AI vocabulary: what was done to the data, and what they are for."""
    privacy = ", ".join(
        f"{name} = {value:g}" for name, value in manifest["privacy"].items() if _is_number(value)
    )
    return {
        "rai:dataCollection": "Ratings that people gave in a service, taken from the owner's source at the snapshot.",
        "rai:dataCollectionType": "Others",
        "rai:dataPreprocessingProtocol": f"Predictive Anonymization, method {manifest['method']} ({privacy}).",
        "rai:dataManipulationProtocol": publishes,
        "rai:personalSensitiveInformation": (
            "No ids, names or attributes of people. Pseudonyms were drawn for this release. Opinions of groups or, "
            "where the method says so, disguised opinions of single people are published; report.html says what "
            "attacks inferred from them."
        ),
        "rai:dataBiases": (
            "People who rate little, items that few people rated, and minorities of taste are smoothed most."
        ),
        "rai:dataLimitations": (
            "Published values are not what a person said. Differences inside a group are lost. Do not interpret single "
            "values."
        ),
        "rai:dataUseCases": "Training and evaluating recommender systems; statistics of taste.",
        "rai:dataSocialImpact": (
            "Allows research on recommendations without publishing what single people said. Do not try to identify "
            "people."
        ),
        "rai:dataReleaseMaintenancePlan": (
            "The bytes of a release never change. A withdrawn release is replaced by a tombstone, a repaired one "
            "stands beside it with a suffix."
        ),
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _file(public: Path, name: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "encodingFormat": PARQUET,
        "sha256": digest(public / name),
    }


def _records(name: str) -> dict[str, Any]:
    kind = name.removesuffix(".parquet")
    return {
        "@type": "cr:RecordSet",
        "@id": kind,
        "name": kind,
        "field": [_field(name, kind, *column) for column in COLUMNS[name]],
    }


def _field(file: str, kind: str, column: str, data_type: str, listed: bool, words: str) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{kind}/{column}",
        "name": column,
        "description": words,
        "dataType": data_type,
        **({"isArray": True, "arrayShape": "-1"} if listed else {}),
        "source": {"fileObject": {"@id": file}, "extract": {"column": column}},
    }
