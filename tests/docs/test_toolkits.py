"""Test that a release, as it is, trains in LensKit, Surprise, RecBole and implicit, and that mlcroissant reads it.

Most of these are not installed beside the project: `make toolkits` makes environments for them, in which the lines of
the release's own README.md run. Without it, what the project's environment has is tested.
"""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tasks import pipeline
from tasks.cli import main
from tasks.config import parse
from tasks.store import Store, read_json
from tests.conftest import SNAPSHOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NOTEBOOK = Path(__file__).parents[2] / "docs" / "examples" / "recommender.ipynb"
ENVIRONMENTS = os.environ.get("MURMUR_TOOLKITS")  # the directory that `make toolkits` fills
SECONDS = 600
# What a toolkit must do with what the README loaded: learn, and rank for somebody who is in no release.
USES = {
    "LensKit": """
from lenskit import recommend
from lenskit.als import BiasedMFScorer
from lenskit.data import ItemList, RecQuery
from lenskit.pipeline import topn_pipeline
trained = topn_pipeline(BiasedMFScorer(features=8, epochs=3))
trained.train(data)
own = ItemList(item_ids=["i1", "i2", "i3"], rating=[5.0, 1.0, 3.0])
best = list(recommend(trained, RecQuery(user_items=own), 10).ids())
""",
    "Surprise": """
from surprise import SVD
trained = SVD(n_factors=8, n_epochs=3, random_state=0).fit(data.build_full_trainset())
unseen = sorted(set(ratings["item"]) - {"i1", "i2", "i3"})
best = sorted(unseen, key=lambda item: -trained.predict(ratings["user"][0], item).est)[:10]
""",
    "implicit": """
from implicit.als import AlternatingLeastSquares
trained = AlternatingLeastSquares(factors=8, iterations=3, random_state=0, num_threads=1, use_gpu=False)
trained.fit(matrix, show_progress=False)
names = list(items.cat.categories)
own = csr_matrix(([2.0], ([0], [names.index("i1")])), shape=(1, len(names)))
known = [names.index(item) for item in ("i1", "i2", "i3")]
found, _ = trained.recommend(0, own, N=10, recalculate_user=True, filter_items=known)
best = [names[item] for item in found]
""",
}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Publish a small release, and write its rows as `murmur expand` does."""
    place = tmp_path_factory.mktemp("toolkits")
    os.environ.setdefault("MURMUR_SECRET_FILE", str(place / "secret.key"))
    made_up = {"users": 400, "items": 90, "ratings_per_user": 30.0}
    config = parse(
        {
            "release": {"name": "films"},
            "source": {"format": "synthetic", "synthetic": made_up},
            "privacy": {"k": 5},
        }
    )
    pipeline.run(config, SNAPSHOT, Store(place / "store"), progress=lambda *_: None)
    published = Store(place / "store").published("films", SNAPSHOT)
    (place / "data").mkdir()
    for to, out in (("csv", "ratings.csv"), ("recbole", "data/NAME")):
        assert main(["expand", str(published), "--to", to, str(place / out)]) == 0
    return published, place


def python_with(package: str) -> str:
    """Return the interpreter that has the package; without one the test is skipped."""
    if ENVIRONMENTS:
        environment = "recbole" if package == "recbole" else "toolkits"
        return str(Path(ENVIRONMENTS) / environment / "bin" / "python")
    pytest.importorskip(package, reason=f"{package} is not installed (make toolkits)")
    return sys.executable


def run(python: str, script: str, place: Path, **environment: str) -> str:
    known = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment}
    done = subprocess.run(
        [python, "-c", script],
        cwd=place,
        env=known,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines_of(published: Path, title: str) -> str:
    """Return the lines of the README for a toolkit, after those that load the rows with pandas."""
    (block,) = re.findall(r"```python\n(ratings = .*?)```", (published / "README.md").read_text(), re.DOTALL)
    load, *parts = re.split(r"\n# (?=LensKit|Surprise|implicit|RecBole)", block)
    (part,) = [one for one in parts if one.startswith(title)]
    return f"import pandas as pd\n{load}\n# {part}\n"


@pytest.mark.parametrize("title", USES)
def test_toolkits_train_on_the_lines_of_the_readme(release, title):
    published, place = release
    python = python_with({"Surprise": "surprise"}.get(title, title.lower()))
    script = (
        lines_of(published, title)
        + USES[title]
        + "\nimport json\nprint(json.dumps([str(one) for one in best]))"
    )
    best = json.loads(run(python, script, place).splitlines()[-1])
    assert len(set(best)) == 10
    assert not {"i1", "i2", "i3"} & set(best)
    assert set(best) <= {f"i{number}" for number in range(1, 91)}


def test_recbole_trains_on_the_lines_of_the_readme(release):
    published, place = release
    script = lines_of(published, "RecBole").replace("run_recbole(", "found = run_recbole(")
    printed = run(python_with("recbole"), script + "print(found['test_result']['ndcg@10'])", place)
    assert 0 < float(printed.splitlines()[-1].removeprefix("np.float64(").rstrip(")")) <= 1


def test_pandas_reads_the_rows(release):
    """A row for every member of a group and every item of it, with ids as text."""
    published, place = release
    printed = run(
        sys.executable, lines_of(published, "Surprise").split("# Surprise")[0] + "print(ratings.shape)", place
    )
    with (place / "ratings.csv").open() as rows:
        number = sum(1 for _ in csv.reader(rows)) - 1
    counts = read_json(published / "manifest.json")["counts"]
    assert printed.strip() == f"({number}, 3)"
    assert number == counts["ratings"] == counts["users"] * counts["items"]


def test_mlcroissant_reads_a_release(release):
    """Its own validation finds nothing, and its records are those of the files."""
    published, place = release
    script = """
import sys, mlcroissant
known = mlcroissant.Dataset(sys.argv[1] if len(sys.argv) > 1 else PLACE)
assert list(known.metadata.ctx.issues.errors) == [], known.metadata.ctx.issues.report()
assert str(known.metadata.ctx.conforms_to.value).endswith("1.1"), known.metadata.ctx.conforms_to
print(sum(1 for _ in known.records("members")), sum(1 for _ in known.records("items")))
"""
    script = f"PLACE = {str(published / 'croissant.json')!r}\n{script}"
    counts = read_json(published / "manifest.json")["counts"]
    assert run(python_with("mlcroissant"), script, place).split() == [
        str(counts["users"]),
        str(counts["items"]),
    ]


def cells() -> list[dict]:
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_runs(release, tmp_path):
    """Its cells, one after the other, download a release, train on it and recommend."""
    published, _ = release
    script = "\n".join("".join(cell["source"]) for cell in cells())
    script += "\nassert errors['model'] < errors['level'] < errors['item means'], errors"
    script += "\nprint(len(set(best) - set(rated)))"
    environment = {"MURMUR_EXAMPLE_RELEASE": str(published), "TMPDIR": str(tmp_path)}
    printed = run(python_with("implicit"), script, tmp_path, **environment)
    assert printed.split() == ["10"]


def test_the_notebook_runs_in_jupyter(release, tmp_path):
    """The same in a kernel."""
    published, _ = release
    script = f"""
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read({str(NOTEBOOK)!r}, 4)
NotebookClient(notebook, timeout={SECONDS}).execute()
print(sum(bool(cell.get("outputs")) for cell in notebook.cells))
"""
    environment = {"MURMUR_EXAMPLE_RELEASE": str(published), "TMPDIR": str(tmp_path)}
    assert int(run(python_with("nbclient"), script, tmp_path, **environment).split()[-1]) >= 5


def test_the_notebook_is_kept_with_its_output():
    """What is in the repository was executed, in order, without an error, and names no place of a machine."""
    assert [cell["execution_count"] for cell in cells()] == list(range(1, len(cells()) + 1))
    outputs = [output for cell in cells() for output in cell["outputs"]]
    assert len(outputs) >= 5
    assert {output["output_type"] for output in outputs} <= {"execute_result", "display_data"}
    assert not re.search(r"/(home|tmp|root|work|usr)/", NOTEBOOK.read_text())
