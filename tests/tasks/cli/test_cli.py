"""Test `murmur` as a person or a program uses it: answers, exit codes and refusals."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.registry import registered
from tasks.cli import main
from tasks.config.gate import check_names
from tasks.data.profiles import SCHEMA
from tasks.store import digest, read_json, write_json

CONFIG = """
[release]
name = "films"
[source]
format = "csv"
path = "{ratings}"
scale = [1, 5]
[privacy]
method = "predictive-{method}"
k = 4
l = 3
"""


def murmur(capsys, *arguments: str) -> tuple[int, dict, str]:
    """Exit code, the JSON on stdout, and what went to stderr."""
    capsys.readouterr()  # what a fixture may have printed
    code = main([*arguments, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    """A csv of tastes, users called by names that no file outside private/ may show."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("source") / "ratings.csv"
    taste = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 60))
    rows = ["user,item,rating,timestamp"]
    for user in range(200):
        for item in np.flatnonzero(rng.random(60) < np.linspace(0.7, 0.1, 60)):
            rating = int(np.clip(np.rint(3.3 + 0.8 * taste[user, item] + 1.0 * rng.standard_normal()), 1, 5))
            rows.append(f"person-{user:03},film {item},{rating},{1_700_000_000 + user}")
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def users(ratings):
    """A user table: who likes the first films is more often of one gender, in words no other file may show."""
    liked: dict[str, list[int]] = {}
    for line in ratings.read_text().splitlines()[1:]:
        person, film, rating, _ = line.split(",")
        if int(film.removeprefix("film ")) < 10:
            liked.setdefault(person, []).append(int(rating))
    means = {person: np.mean(found) for person, found in liked.items()}
    middle = np.median(list(means.values()))
    path = ratings.parent / "users.csv"
    rows = [f"{person},{'qvixen' if mean > middle else 'qstallion'}" for person, mean in means.items()]
    path.write_text("\n".join(["user,gender", *rows]) + "\n")
    return path


@pytest.fixture(scope="module", autouse=True)
def _one_secret(tmp_path_factory):
    """The same pseudonyms, groups and splits in every test run: a gate at its threshold is no matter of luck."""
    path = tmp_path_factory.mktemp("secret") / "key"
    path.write_bytes(b"c" * 32)
    path.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MURMUR_SECRET_FILE", str(path))
        yield


@pytest.fixture(scope="module")
def releases(tmp_path_factory, ratings):
    """Published releases by method: (method) → (config file, store)."""
    made: dict[str, tuple[Path, Path]] = {}

    def make(method: str) -> tuple[Path, Path]:
        if method not in made:
            place = tmp_path_factory.mktemp(method)
            config = place / "films.toml"
            kind, _, alone = method.partition(" ")
            text = CONFIG.format(ratings=ratings, method=kind)
            config.write_text(f'{text}\n[series]\nmode = "independent"\n' if alone else text)
            code = main(
                ["run", str(config), "--snapshot", "2026-01-01", "--store", str(place / "store"), "--json"]
            )
            assert code == 0
            made[method] = config, place / "store"
        return made[method]

    return make


@pytest.mark.slow
def test_run_answers_with_the_documented_json(releases, capsys):
    config, store = releases("padded")
    code, answer, _ = murmur(capsys, "run", str(config), "--snapshot", "2026-01-01", "--store", str(store))
    assert code == 0
    assert answer["status"] == "published"
    assert Path(answer["published"], "manifest.json").exists()
    assert Path(answer["report"]).exists()
    assert {
        "original_rmse",
        "target_deviation_rmse",
        "similar_user_rmse",
        "random_group_rmse",
        "self_rank_1_share",
    } <= set(answer["utility"])
    ranking = answer["utility"]["ranking"]
    assert {"original_ndcg", "own_history_ndcg", "group_history_ndcg", "popularity_ndcg", "parts"} <= set(
        ranking
    )
    assert all(isinstance(value, float) for value in answer["seconds"].values())
    assert answer["peak_rss_bytes"] > 0
    line = {"name", "passed", "applicable", "void", "observed", "threshold", "ci_low", "ci_high", "n"}
    assert line | {"severity", "detail"} == set(answer["checks"][0])


def test_no_answer_shows_a_source_id(releases, ratings, capsys):
    config, store = releases("padded")
    for arguments in (
        ["run", str(config), "--snapshot", "2026-01-01", "--store", str(store), "--verbose"],
        ["check", str(config)],
        [
            "audit",
            str(published(store)),
            "--private",
            str(private(store)),
            "--source",
            str(ratings),
            "--format",
            "csv",
        ],
    ):
        assert main(arguments) == 0
        out, err = capsys.readouterr()
        assert "person-" not in out + err
        assert out


@pytest.mark.slow
def test_a_comparison_answers_and_leaves_the_release_as_it_was(releases, tmp_path, capsys):
    config, store = releases("padded alone")  # a comparison stands outside any series

    def everything() -> dict[str, tuple[bytes, int]]:
        files = (file for file in store.rglob("*") if file.is_file())
        return {str(file): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}

    before = everything()
    asked = ["compare", str(config), "--snapshot", "2026-01-01", "--store", str(store)]
    asked += ["--methods", "predictive-padded", "--plot", str(tmp_path / "plot.svg")]
    code, answer, err = murmur(capsys, *asked)
    assert code == 0
    assert [row["status"] for row in answer["rows"]] == ["passed"]
    # The same candidate as the release: the same figures.
    checks = {c["name"]: c for c in read_json(published(store) / "checks.json")}
    bounds = {name: checks[name]["ci_high"] for name in check_names(("attacks",))}
    without = {name: checks[name]["observed"] for name, bound in bounds.items() if bound is None}
    assert "link-existence" in without
    assert answer["rows"][0]["risk"] == bounds | without
    assert everything() == before
    assert (tmp_path / "plot.svg").exists()
    assert "person-" not in json.dumps(answer) + err
    asked[asked.index("predictive-padded")] = "predictive-padded:min_contributors=1:keep_observed=true"
    assert main(asked) == 0  # refused, and a result all the same
    out, err = capsys.readouterr()
    assert "refused" in out
    assert "recovery" in out
    assert "person-" not in out + err


def published(store: Path) -> Path:
    return store / "published" / "films" / "2026-01-01"


def private(store: Path) -> Path:
    return store / "private" / "films" / "2026-01-01"


# What the gate must notice. Each violation is planted into a copy of a good release whose digests are then mended,
# so that only the check it is meant for can catch it.


@pytest.fixture
def copy(releases, tmp_path):
    def make(method: str = "simple") -> tuple[Path, Path]:
        _, store = releases(method)
        made = published(store), private(store)
        copies = [tmp_path / "copied" / place.relative_to(store) for place in made]
        for place, copied in zip(made, copies, strict=True):
            shutil.copytree(place, copied)
        return copies[0], copies[1]

    return make


def edit(directory: Path, name: str, change) -> None:
    """Rewrite a table and put its new digest into the manifest."""
    schema = SCHEMA if name == "groups.parquet" else pq.read_schema(directory / name)
    rows = change(pq.read_table(directory / name).to_pylist())
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), directory / name)
    manifest = read_json(directory / "manifest.json")
    manifest["files"][name] = digest(directory / name)
    write_json(directory / "manifest.json", manifest)


def failed(answer: dict) -> set[str]:
    return {c["name"] for c in answer["checks"] if not c["passed"] and c["severity"] == "gate"}


def audit(capsys, release: Path, owner: Path, ratings: Path) -> tuple[int, dict]:
    code, answer, err = murmur(
        capsys, "audit", str(release), "--private", str(owner), "--source", str(ratings), "--format", "csv"
    )
    assert "person-" not in json.dumps(answer) + err
    return code, answer


@pytest.mark.slow
def test_a_good_release_passes_verify_and_audit(copy, ratings, capsys):
    release, owner = copy()
    before = {f: f.read_bytes() for d in (release, owner) for f in d.rglob("*") if f.is_file()}
    assert murmur(capsys, "verify", str(release))[0] == 0
    code, answer = audit(capsys, release, owner, ratings)
    assert (code, failed(answer)) == (0, set())
    assert {f: f.read_bytes() for d in (release, owner) for f in d.rglob("*") if f.is_file()} == before


def a_group_of_k_minus_1(rows):
    group = rows[0]["group"]
    mine = [r for r in rows if r["group"] == group]
    return [r for r in rows if r["group"] != group] + mine[:3]


def a_pseudonym_in_two_groups(rows):
    other = next(r["group"] for r in rows if r["group"] != rows[0]["group"])
    return sorted([*rows, {"user": rows[0]["user"], "group": other}], key=lambda r: r["user"])


def a_member_of_no_group(rows):
    return [{"user": rows[0]["user"], "group": 9999}, *rows[1:]]


def a_group_with_two_profiles(rows):
    return [*rows, {**rows[0], "ratings": bytes(len(rows[0]["ratings"]))}]


def an_item_in_l_minus_1_groups(rows):
    item = rows[0]["items"][0]
    held = 0
    for row in rows:
        if item in row["items"]:
            held += 1
            if held > 2:
                place = row["items"].index(item)
                row["items"] = row["items"][:place] + row["items"][place + 1 :]
                row["ratings"] = row["ratings"][:place] + row["ratings"][place + 1 :]
    return rows


@pytest.mark.parametrize(
    ("file", "change", "caught_by"),
    [
        ("members.parquet", a_group_of_k_minus_1, "k-anonymity"),
        ("members.parquet", a_pseudonym_in_two_groups, "integrity"),
        ("members.parquet", a_member_of_no_group, "integrity"),
        ("groups.parquet", a_group_with_two_profiles, "integrity"),
        ("groups.parquet", an_item_in_l_minus_1_groups, "diversity"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_planted_violations_are_refused(copy, ratings, capsys, file, change, caught_by):
    release, owner = copy()
    edit(release, file, change)
    code, answer, _ = murmur(capsys, "verify", str(release))
    assert code == 3
    assert caught_by in failed(answer)
    code, answer = audit(capsys, release, owner, ratings)
    assert code == 3
    assert caught_by in failed(answer)


@pytest.mark.parametrize(
    "name", ["groups.parquet", "members.parquet", "items.parquet", "checks.json", "report.html"]
)
def test_a_tampered_file_is_refused(copy, ratings, capsys, name):
    release, owner = copy()
    content = bytearray((release / name).read_bytes())
    content[len(content) // 2] ^= 0x20
    (release / name).write_bytes(content)
    code, answer, _ = murmur(capsys, "verify", str(release))
    assert code == 3
    assert "integrity" in failed(answer)
    assert audit(capsys, release, owner, ratings)[0] == 3


@pytest.mark.parametrize("name", ["groups.parquet", "members.parquet", "items.parquet", "manifest.json"])
def test_a_file_damaged_anywhere_is_refused(copy, ratings, capsys, name):
    """Whatever the reader trips over first, it is a refusal, never a crash."""
    release, owner = copy()
    whole = (release / name).read_bytes()
    for place in np.linspace(0, len(whole) - 1, 25).astype(int):
        content = bytearray(whole)
        content[place] ^= 0xFF
        (release / name).write_bytes(content)
        assert murmur(capsys, "verify", str(release))[0] == 3, place
        if place % 3 == 0:
            assert audit(capsys, release, owner, ratings)[0] == 3, place
    (release / name).write_bytes(whole[: len(whole) // 2])
    assert murmur(capsys, "verify", str(release))[0] == 3


def test_a_release_without_its_verdict_is_refused(copy, capsys):
    release, _ = copy()
    manifest = read_json(release / "manifest.json")
    del manifest["checks"]
    for name in ("checks.json", "report.html", "README.md"):
        del manifest["files"][name]
        (release / name).unlink()
    write_json(release / "manifest.json", manifest)
    code, answer, _ = murmur(capsys, "verify", str(release))
    assert (code, failed(answer)) == (3, {"integrity"})


def test_a_loosened_threshold_is_reported(releases, tmp_path, capsys):
    config, _ = releases("padded")
    path = tmp_path / "c.toml"
    path.write_text(config.read_text() + "[gate]\nhomogeneity = 0.9\n")
    _, answer, _ = murmur(
        capsys, "run", str(path), "--snapshot", "2026-01-01", "--store", str(tmp_path / "s")
    )
    assert any(
        "loosened the threshold" in c["detail"] for c in answer["checks"] if c["name"] == "homogeneity"
    )


def test_an_extra_file_is_refused(copy, capsys):
    release, _ = copy()
    (release / "notes.txt").write_text("who is who")
    code, answer, _ = murmur(capsys, "verify", str(release))
    assert (code, failed(answer)) == (3, {"integrity"})


def test_single_contributors_ratings_as_they_are_are_refused(copy, ratings, capsys):
    """The paper's simple homogenization: the mean of those who rated, and be it one."""
    release, owner = copy()
    import pandas as pd

    source = pd.read_csv(ratings)
    source["group"] = source["user"].map(
        pq.read_table(owner / "membership.parquet").to_pandas().set_index("user")["group"]
    )
    position = {
        item: place for place, item in enumerate(pq.read_table(release / "items.parquet")["item"].to_pylist())
    }
    means = source.groupby(["group", source["item"].map(position)])["rating"].mean()

    def verbatim(rows):
        for row in rows:
            codes = bytearray(row["ratings"])
            for place, item in enumerate(row["items"]):
                if (row["group"], item) in means.index:
                    codes[place] = round((means[row["group"], item] - 1) / 0.1)
            row["ratings"] = bytes(codes)
        return rows

    edit(release, "groups.parquet", verbatim)
    assert murmur(capsys, "verify", str(release))[0] == 0  # the files alone cannot show it
    code, answer = audit(capsys, release, owner, ratings)
    assert code == 3
    assert "contributors" in failed(answer)


# Usage


def test_init_writes_a_configuration_that_check_understands(tmp_path, monkeypatch, capsys, ratings):
    monkeypatch.chdir(tmp_path)
    code, answer, _ = murmur(capsys, "init", "books")
    assert code == 0
    path = Path(answer["config"])
    text = path.read_text()
    assert 'name = "books"' in text
    path.write_text(text.replace("data/{snapshot}/ratings.csv", str(ratings)))
    code, answer, _ = murmur(capsys, "check", str(path))
    assert code == 0
    assert answer["source"]["rows_rejected"] == 0
    assert answer["source"]["lowest_rating"] == 1.0
    assert answer["rows"][0]["user"] == "(hidden)"
    assert answer["source"]["ratings"] > 1000
    code, answer, err = murmur(capsys, "init", "books")
    assert code == 2
    assert "exists already" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "absent.toml", "--snapshot", "2026-01-01"], "no such configuration"),
        (["run", "{config}", "--snapshot", "soon"], "YYYY-MM-DD"),
        (["verify", "nowhere"], "no such release"),
        (
            ["audit", "nowhere", "--private", "nowhere", "--source", "x", "--format", "csv"],
            "no such directory",
        ),
        (["check", "absent.toml"], "no such configuration"),
        (["reproduce", "P0", "--data", "nowhere"], "none of"),
        (["init", "Not A Name"], "lower-case"),
        (["compare", "absent.toml", "--snapshot", "2026-01-01", "--methods", "x"], "no such configuration"),
        (["compare", "{config}", "--snapshot", "soon", "--methods", "predictive-padded"], "YYYY-MM-DD"),
        (
            ["compare", "{config}", "--snapshot", "2026-01-01", "--methods", "magic"],
            "there is no method 'magic'",
        ),
        (
            ["compare", "{config}", "--snapshot", "2026-01-01", "--methods", "predictive-padded:x=1"],
            "no setting 'x'",
        ),
    ],
)
def test_bad_usage_ends_with_2_and_a_remedy(releases, capsys, arguments, says):
    config, _ = releases("padded")
    code, answer, err = murmur(capsys, *[a.format(config=config) for a in arguments])
    assert code == 2
    assert says in err
    assert "Traceback" not in err
    assert answer["status"] == "error"


@pytest.mark.parametrize(
    "arguments", [["fly"], ["attack", "fly"], ["run"], ["verify", "x", "--colour", "red"]]
)
def test_wrong_arguments_end_with_2_and_an_answer(capsys, arguments):
    code, answer, err = murmur(capsys, *arguments)
    assert code == 2
    assert answer["status"] == "error"
    assert "--help" in answer["error"]["remedy"]
    assert "Traceback" not in err


# Attacks on synthetic rows have no people to attack in other releases (tests/tasks/cli/test_synthetic_commands.py).
ATTACKS = [name for name in check_names(("attacks",)) if set(registered()[name].units) != {"synthetic"}]
FIELDS = {
    "attack", "target", "knowledge", "n", "successes", "risk", "ci_low", "ci_high", "baseline", "residual", "top",
    "group_top",
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_answers_on_raw_data_and_on_a_release(releases, ratings, users, capsys, name):
    _, store = releases("simple")
    source = ["--source", str(ratings), "--format", "csv", "--users", str(users), "--attributes", "gender"]
    aimed = {
        "raw": ["--scale", "1,5"],
        "release": ["--release", str(published(store)), "--private", str(private(store))],
    }
    for target, where in aimed.items():
        code, answer, err = murmur(capsys, "attack", name, *source, *where)
        assert (code, answer["attack"], answer["target"]) == (0, name, target), err
        assert answer["results"]
        assert not answer["void"], answer["detail"]
        for found in answer["results"]:
            assert set(found) >= FIELDS
            assert found["risk"] is None or 0 <= found["ci_low"] <= found["risk"] <= found["ci_high"] <= 1
            assert found["successes"] <= found["n"]
        assert not re.search(r"person-\d|qvixen|qstallion", json.dumps(answer) + err)
    assert not list(private(store).glob(".attack*"))


def test_attributes_are_attacked_as_far_as_they_are_known(ratings, users, capsys):
    source = ["--source", str(ratings), "--format", "csv", "--scale", "1,5"]
    known = ["--users", str(users), "--attributes", "gender"]
    code, answer, _ = murmur(capsys, "attack", "attribute-inference", *source)
    assert (code, answer["error"]["what"]) == (2, "the source has no attribute of any user")
    _, answer, _ = murmur(capsys, "attack", "attribute-inference", *source, *known)
    assert {found["knowledge"].partition(":")[0] for found in answer["results"]} == {"gender"}
    assert all(found["baseline"] == 0.5 for found in answer["results"])
    _, answer, _ = murmur(capsys, "attack", "unprotected-attributes", *source, *known, "--protect", "gender")
    assert answer["detail"] == "the source has no attribute of users that is not protected."
    code, answer, _ = murmur(capsys, "attack", "attribute-inference", *source, *known, "--protect", "age")
    assert (code, answer["error"]["where"]) == (2, "--protect")
    code, answer, _ = murmur(capsys, "attack", "attribute-inference", *source, "--users", str(users))
    assert code == 2
    assert "attributes" in answer["error"]["what"]


@pytest.mark.slow
def test_audit_protects_the_given_attributes(copy, ratings, users, tmp_path, capsys):
    """By the command line, and as the release file says."""
    release, owner = copy()
    known = ["--users", str(users), "--attributes", "gender"]
    place = ["audit", str(release), "--private", str(owner)]
    source = ["--source", str(ratings), "--format", "csv", *known]

    def audited(*more):
        _, answer, err = murmur(capsys, *place, *more)
        assert not re.search(r"person-\d|qvixen|qstallion", json.dumps(answer) + err)
        return {check["name"]: check for check in answer["checks"]}

    free = audited(*source)
    assert free["attribute-inference"]["detail"] == "no attribute is protected."
    assert free["unprotected-attributes"]["n"] == 200
    bound = audited(*source, "--protect", "gender")
    assert bound["attribute-inference"]["n"] == 200
    assert bound["unprotected-attributes"]["n"] == 0
    config = tmp_path / "films.toml"
    config.write_text(
        CONFIG.format(ratings=ratings, method="padded")
        + f'protect = ["gender"]\n[source.attributes]\npath = "{users}"\ncolumns = ["gender"]\n'
    )
    assert audited("--config", str(config))["attribute-inference"] == bound["attribute-inference"]


def test_raw_data_give_people_away_and_the_release_does_not(releases, ratings, capsys):
    _, store = releases("simple")
    source = ["--source", str(ratings), "--format", "csv"]
    _, raw, _ = murmur(capsys, "attack", "scoreboard-rh", *source, "--scale", "1,5")
    place = ["--release", str(published(store)), "--private", str(private(store))]
    _, released, _ = murmur(capsys, "attack", "scoreboard-rh", *source, *place)
    by_name = {found["knowledge"]: found for found in raw["results"]}
    assert by_name["16 random, exact"]["top"]["1"] > 0.9
    assert by_name["8 random, exact, days"]["top"]["1"] >= by_name["8 random, exact"]["top"]["1"]
    for found in released["results"]:
        assert found["ci_high"] <= 1 / 4 + 1e-6
        assert found["top"]["1"] == 0
        assert "days" not in found["knowledge"]


def test_a_source_of_other_people_is_wrong_input(releases, capsys, tmp_path):
    _, store = releases("simple")
    (tmp_path / "other.csv").write_text(
        "user,item,rating\n" + "".join(f"x{n},film {n},3\n" for n in range(9))
    )
    code, answer, _ = murmur(
        capsys, "attack", "scoring", "--source", str(tmp_path / "other.csv"), "--format", "csv",
        "--release", str(published(store)), "--private", str(private(store)),
    )  # fmt: skip
    assert code == 2
    assert "no user of this source" in answer["error"]["what"]


def test_advice_names_items_and_nobody(ratings, capsys, tmp_path):
    (tmp_path / "who").write_text("person-007\n")
    code, answer, err = murmur(
        capsys, "attack", "advise", "--source", str(ratings), "--format", "csv", "--scale", "1,5",
        "--mentions", "film 50,film 58", "--user-file", str(tmp_path / "who"), "--most", "3",
    )  # fmt: skip
    assert code == 0
    assert len(answer["advice"]) == 3
    assert all(step["item"].startswith("film ") for step in answer["advice"])
    assert not re.search(r"person-\d", json.dumps(answer) + err)
    code, answer, err = murmur(
        capsys, "attack", "advise", "--source", str(ratings), "--format", "csv", "--scale", "1,5",
        "--mentions", "film 999",
    )  # fmt: skip
    assert code == 2
    assert "film 999" in answer["error"]["what"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scoring", "--format", "csv", "--source", "x.csv"], "--scale"),
        (["scoring", "--format", "movielens-1m", "--source", "x", "--release", "r"], "--private"),
        (
            ["advise", "--format", "movielens-1m", "--source", "x", "--release", ".", "--private", "."],
            "--release",
        ),
        (["scoring"], "--source"),
        (["scoring", "--format", "csv", "--source", "{snapshot}.csv", "--scale", "-1,5"], "--snapshot"),
        (["scoring", "--format", "csv", "--source", "x", "--scale", "1,5", "--columns", "a,b"], "--columns"),
        (["scoring", "--format", "csv", "--source", "x", "--config", "x.toml"], "--config"),
        (["scoring", "--format", "movielens-1m", "--source", "x", "--mentions", "1"], "--mentions"),
        (
            ["advise", "--format", "movielens-1m", "--source", "x", "--mentions", "1", "--most", "-3"],
            "--most",
        ),
        (
            ["scoring", "--format", "movielens-1m", "--source", "x", "--release", ".", "--private", "."],
            "manifest",
        ),
    ],
)
def test_attack_says_what_is_missing(capsys, arguments, words):
    code, answer, _ = murmur(capsys, "attack", *arguments)
    assert code == 2
    assert words in answer["error"]["where"]


def test_bad_input_ends_with_2_and_the_line(tmp_path, capsys):
    (tmp_path / "r.csv").write_text("user,item,rating\n" + "a,x,4\nb,x,nine\nc,y,3\n" * 5)
    config = tmp_path / "c.toml"
    config.write_text(CONFIG.format(ratings=tmp_path / "r.csv", method="padded"))
    code, _, err = murmur(
        capsys, "run", str(config), "--snapshot", "2026-01-01", "--store", str(tmp_path / "s")
    )
    assert code == 2
    assert re.search(r"line 3\b", err)
    assert "nine" not in err
    assert not (tmp_path / "s" / "published").exists()


def test_a_refused_run_ends_with_3_and_says_why(releases, tmp_path, capsys):
    config, _ = releases("padded")
    path = tmp_path / "c.toml"
    # What `recovery` measures on so few people depends on the CPU type; this limit is exceeded on all.
    leaking = "min_contributors = 1\n[padding]\nkeep_observed = true\n[gate]\nrecovery = 0.2\n"
    path.write_text(config.read_text() + leaking)
    code, answer, err = murmur(
        capsys, "run", str(path), "--snapshot", "2026-01-01", "--store", str(tmp_path / "s")
    )
    assert code == 3
    assert answer["status"] == "refused"
    assert answer["published"] is None
    assert "recovery" in failed(answer)
    assert "recovery" in err
    assert Path(answer["report"]).exists()


def test_an_unforeseen_error_ends_with_1_and_shows_no_data(releases, monkeypatch, capsys):
    config, _ = releases("padded")

    def broken(*_, **__):
        raise KeyError("person-001")

    monkeypatch.setattr("tasks.cli._preview.preview", broken)
    code, answer, err = murmur(capsys, "check", str(config))
    assert code == 1
    assert "person-001" not in err + json.dumps(answer)
    assert "KeyError" in err
