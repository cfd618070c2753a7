"""Test the pages in the Airflow UI: who sees what, addresses that try to leave the store, headers, contents."""

import asyncio
import datetime
import shutil
from functools import partial
from types import SimpleNamespace

import pytest

from tasks.store import Store, read_json, write_json
from tests.tasks.series.made_series import POPULATION, make_candidate, publish_candidate

RELEASE = """
[release]
name = "{name}"
schedule = "0 3 1 * *"
[source]
format = "synthetic"
[privacy]
k = 2
[series]
population = "{population}"
min_cohort = 4
"""
NOW = datetime.datetime(2026, 2, 10, tzinfo=datetime.UTC)
PUBLISHED, REFUSED = "2026-01-01", "2026-02-01"

# What each account may do with the DAGs of the releases: Airflow asks its auth manager for a method and a DAG.
RIGHTS = {
    "nobody": set(),
    "viewer": {("GET", "release_films")},
    "owner": {("GET", "release_films"), ("PUT", "release_films")},
    "admin": {(method, f"release_{name}") for method in ("GET", "PUT") for name in ("films", "books")},
}

LINES = [
    ("nearest-record", 0.12, 0.25, 0.5, True),
    ("tf-idf", 0.1, 0.2, 0.5, True),
    ("label-based", 0.5, None, 0.5, True),  # of everybody, not on average
    ("utility", 0.034567, None, 0.75, True),
    ("homogeneity", 0.9, 0.95, 0.5, False),
]


class Accounts:
    """Stand in for Airflow's auth manager; a token is the name of the account."""

    async def get_user_from_token(self, token):
        from jwt import InvalidTokenError

        if token not in RIGHTS:
            raise InvalidTokenError
        return SimpleNamespace(name=token)

    def is_authorized_dag(self, *, method, access_entity=None, details=None, user):
        assert access_entity is None
        return (method, details.id) in RIGHTS[user.name]


@pytest.fixture(scope="module")
def kept_store(tmp_path_factory):
    """A store with a published snapshot of films and a refused one, and files outside of all releases."""
    tmp_path = tmp_path_factory.mktemp("pages")
    store = Store(tmp_path / "store")
    made = make_candidate(tmp_path / "made", store, PUBLISHED, ["u1", "u2", "u3", "u4"], items=["i0", "i1"])
    publish_candidate(made, store, PUBLISHED)
    public = store.root / "published" / "films" / PUBLISHED
    manifest = read_json(public / "manifest.json")
    manifest["checks"] = [
        {"name": name, "observed": observed, "ci_high": high, "threshold": limit, "passed": passed}
        | {"severity": "gate", "applicable": True}
        for name, observed, high, limit, passed in LINES
    ]
    write_json(public / "manifest.json", manifest)
    (public / "report.html").write_text("<p>the public edition</p>")
    own = store.root / "private" / "films"
    (own / PUBLISHED / "report.html").write_text("<p>the owner's edition</p>")
    candidate = own / REFUSED / "work" / "validate" / "candidate"
    candidate.mkdir(parents=True)
    (candidate / "report.html").write_text("<p>the refused candidate</p>")
    write_json(own / REFUSED / "verdict.json", {"passed": False, "failed": ["homogeneity"]})
    (store.root / "report.html").write_text("<p>nobody's</p>")
    (store.root / "private" / "report.html").write_text("<p>nobody's</p>")
    return store


@pytest.fixture
def pages(kept_store, tmp_path, monkeypatch):
    """The app, mounted as Airflow mounts it; a function that asks it for a page as some account."""
    from tasks.series import calendar

    monkeypatch.delenv("MURMUR_LEDGER", raising=False)
    monkeypatch.setenv("MURMUR_STORE", str(kept_store.root))
    monkeypatch.setattr(calendar, "calendar", partial(calendar.calendar, now=NOW))
    from airflow.api_fastapi.core_api import security
    from airflow.models.dag import DagModel
    from murmur_pages import contents
    from murmuration import Pages
    from starlette.applications import Starlette
    from starlette.testclient import TestClient

    releases = tmp_path / "releases"
    releases.mkdir()
    for name in ("films", "books"):
        population = POPULATION if name == "films" else "readers"
        (releases / f"{name}.toml").write_text(RELEASE.format(name=name, population=population))
    monkeypatch.setattr(contents, "RELEASES", releases)
    monkeypatch.setattr(security, "get_auth_manager", Accounts)
    monkeypatch.setattr(DagModel, "get_team_name", lambda dag_id: None)
    outer = Starlette()
    outer.mount("/murmur", Pages())
    client = TestClient(outer)

    def ask(path, account=None, cookie=False):
        given = {"headers": {"Authorization": f"Bearer {account}"}} if account and not cookie else {}
        client.cookies.clear()
        if cookie:
            client.cookies.set("_token", account)
        return client.get(f"/murmur{path}", **given)

    return ask


@pytest.fixture
def copied(pages, kept_store, tmp_path, monkeypatch):
    """The pages, with a copy of the store that a test may change."""
    store = Store(shutil.copytree(kept_store.root, tmp_path / "copy"))
    monkeypatch.setenv("MURMUR_STORE", str(store.root))
    return pages, store


ROUTES = [
    "/",
    "/releases/films",
    "/releases/books",
    "/releases/none",
    f"/releases/films/{PUBLISHED}/report",
    f"/releases/films/{REFUSED}/report",
    "/runs/release_films/manual__1",
]


def test_every_route_is_tried(pages):
    """A route that is added must be added above, too."""
    from murmur_pages.app import make_app

    assert {route.path for route in make_app().routes} == {
        "/",
        "/releases/{name}",
        "/releases/{name}/{directory}/report",
        "/runs/{dag_id}/{run_id:path}",
    }


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("account", [None, "forged"])
def test_anonymous_gets_nothing(pages, path, account):
    """Without an account, or with a token that Airflow does not accept, no page says anything."""
    answer = pages(path, account)
    assert answer.status_code == (401 if account is None else 403)
    for word in ("films", "books", PUBLISHED, "edition", "homogeneity"):
        assert word not in answer.text


@pytest.mark.parametrize("path", ROUTES[1:])
def test_no_access_to_the_dag(pages, path):
    """Who may not read the DAG is refused, whether the release exists or not."""
    answer = pages(path, "nobody")
    assert answer.status_code == 403
    assert "films" not in answer.text
    assert "You may not see this page" in answer.text


def test_list_holds_what_one_may_read(pages):
    """The list has the releases of the DAGs that the account may read."""
    assert "no release that you may see" in pages("/", "nobody").text
    viewer, admin = pages("/", "viewer").text, pages("/", "admin").text
    assert ">films</a>" in viewer
    assert "books" not in viewer
    assert ">books</a>" in admin
    assert pages("/releases/books", "viewer").status_code == 403
    assert pages("/releases/books", "admin").status_code == 200
    assert (
        pages("/releases/none", "admin").status_code == 403
    )  # nobody has rights to a DAG that does not exist


def test_editions(pages):
    """Who may run the DAG gets the owner's edition, who may only read it the public one."""
    path = f"/releases/films/{PUBLISHED}/report"
    assert "the public edition" in pages(path, "viewer").text
    assert "the owner's edition" in pages(path, "owner").text
    assert "the owner's edition" in pages(path, "admin", cookie=True).text


def test_refusals_are_the_owners(pages):
    """That a snapshot was refused, and why, is shown to who may run the DAG alone."""
    path = f"/releases/films/{REFUSED}/report"
    refused = pages(path, "viewer")
    assert refused.status_code == 404
    assert "the refused candidate" not in refused.text
    assert "the refused candidate" in pages(path, "owner").text
    for page in ("/", "/releases/films"):
        seen = pages(page, "viewer").text
        assert "homogeneity" not in seen
        assert ">refused<" not in seen
        assert f"{REFUSED}/report" not in seen
        assert "homogeneity" in pages(page, "owner").text
        assert ">refused<" in pages(page, "owner").text


def test_public_edition_where_there_is_no_other(copied):
    """An owner whose store has no edition of their own gets the public one."""
    pages, store = copied
    (store.root / "private" / "films" / PUBLISHED / "report.html").unlink()
    assert "the public edition" in pages(f"/releases/films/{PUBLISHED}/report", "owner").text


UP = ["..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "..%2f..", "..%5c..", "%c0%ae%c0%ae", "..%00", "．．"]


@pytest.mark.parametrize("up", UP)
@pytest.mark.parametrize(
    "path",
    [
        "/releases/{up}/report",
        "/releases/{up}/{up}/report",
        "/releases/films/{up}/report",
        "/releases/films/2026-01-01%2f{up}/report",
        "/releases/films/2026-01-01/{up}/report",
        "/releases/{up}%2fprivate/films/report",
        "/runs/{up}/{up}%2freport.html",
        "/runs/release_films/{up}%2f{up}%2freport.html",
        "/{up}/{up}/private/report.html",
    ],
)
def test_traversal(pages, monkeypatch, path, up):
    """No way of writing `..` leads out of a release, not even for an administrator."""
    from murmur_pages import contents

    monkeypatch.setattr(contents, "snapshot_of_run", lambda dag_id, run_id: None)
    answer = pages(path.format(up=up), "admin")
    assert answer.status_code in (403, 404)
    assert "edition</p>" not in answer.text
    assert "nobody's" not in answer.text


@pytest.mark.parametrize(
    "directory", ["2026-1-1", "2026-01-01-r0", "2026-01-01.", "", "report", "٢٠٢٦-01-01"]
)
def test_directories_of_another_form(pages, directory):
    """Only the directory of a known snapshot has a report."""
    assert pages(f"/releases/films/{directory}/report", "admin").status_code == 404
    assert pages("/releases/films/2031-01-01/report", "admin").status_code == 404


def test_report_of_a_run(pages, monkeypatch):
    """The tab of a run shows the report of its snapshot."""
    from murmur_pages import contents

    known = {"scheduled__2026-01-01T03:00:00+00:00": PUBLISHED, "manual__x/y": REFUSED}
    asked = []

    def look_up(dag_id, run_id):
        asked.append((dag_id, run_id))
        return known.get(run_id)

    monkeypatch.setattr(contents, "snapshot_of_run", look_up)
    run = "/runs/release_films/scheduled__2026-01-01T03%3A00%3A00%2B00%3A00"
    assert "the owner's edition" in pages(run, "owner").text
    assert "the public edition" in pages(run, "viewer").text
    assert "the refused candidate" in pages("/runs/release_films/manual__x%2Fy", "owner").text
    assert pages("/runs/release_films/other", "owner").status_code == 404
    assert pages("/runs/withdraw_films/other", "owner").status_code == 403
    assert {dag for dag, _ in asked} == {"release_films"}


@pytest.mark.parametrize("path", ["/", "/releases/films", f"/releases/films/{PUBLISHED}/report", "/nothing"])
@pytest.mark.parametrize("account", ["admin", None])
def test_headers(pages, path, account):
    """Nothing runs on a page and nothing is loaded by it; it is neither cached nor framed by others."""
    headers = pages(path, account).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["script-src"] == "'none'"
    assert policy["frame-ancestors"] == "'self'"
    assert policy["form-action"] == policy["base-uri"] == "'none'"
    assert "http" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "no-store" in headers["cache-control"]


def test_figures(pages):
    """A page shows the checks, the worst attack that names people, and the accuracy lost."""
    page = " ".join(pages("/releases/films", "viewer").text.replace("&nbsp;", " ").split())
    assert "<dd>4 of 5<small>checks passed" in page
    assert "<dd>25 %<small>at most, by the best attack; limit 50 %" in page
    assert "<dd>3.46 %<small>of the way to chance; limit 75 %" in page
    assert "<script" not in page
    assert "http" not in page


def test_risk_is_that_of_the_attacks_that_name_people():
    """The list of attacks is that of the checks which declare it; importing these here would load NumPy."""
    from murmur_pages.contents import NAMING

    from checks.registry import registered

    assert tuple(name for name, check in registered().items() if check.about.names_people) == NAMING


def test_sparkline():
    """A line needs two values; gaps keep their place."""
    from murmur_pages.rendering import points

    assert points([1.0]) == points([None, 2.0]) == ""
    assert points([1.0, None, 2.0]) == "3.0,25.0 117.0,3.0"
    assert points([2.0, 2.0]) == "3.0,25.0 117.0,25.0"


def test_unreadable_store(copied):
    """A store that the API server cannot read is named as the reason, and is no error."""
    pages, store = copied
    ledger = next((store.root / "private" / "ledger").glob("*.db"))
    ledger.write_bytes(b"no database")
    answer = pages("/", "viewer")
    assert answer.status_code == 200
    assert "cannot be read by the API server" in answer.text


def test_no_store(pages, tmp_path, monkeypatch):
    """Where there is no store, nothing is called missing."""
    monkeypatch.setenv("MURMUR_STORE", str(tmp_path / "none"))
    page = pages("/releases/films", "owner").text
    assert "the API server cannot read the store" in page
    assert ">missing<" not in page
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("lost", ["requires_access_dag", "get_user"])
def test_denied_without_the_access_check(monkeypatch, pages, lost):
    """Where Airflow's access check cannot be imported, every request is denied."""
    import sys

    import murmur_pages
    from airflow.api_fastapi.core_api import security
    from murmuration import Pages
    from starlette.testclient import TestClient

    monkeypatch.delattr(security, lost)
    for module in ("app", "access"):
        monkeypatch.delitem(sys.modules, f"murmur_pages.{module}", raising=False)
        monkeypatch.delattr(murmur_pages, module, raising=False)
    client = TestClient(Pages())
    for path in ROUTES:
        answer = client.get(path, headers={"Authorization": "Bearer admin"})
        assert answer.status_code == 403
        assert answer.text.startswith("Denied")


def test_plugin_declares_its_views():
    """The navigation has the list, a run has its report, and loading the plugin loads no page."""
    from murmuration import MurmurationPlugin

    views = {view["destination"]: view["href"] for view in MurmurationPlugin.external_views}
    assert views == {"nav": "/murmur/", "dag_run": "/murmur/runs/{DAG_ID}/{RUN_ID}"}
    (app,) = MurmurationPlugin.fastapi_apps
    assert app["url_prefix"] == "/murmur"
    assert app["app"]._app is None


def test_other_protocols_are_not_answered(monkeypatch):
    """Without the app, what is no HTTP request gets no answer."""
    import murmur_pages.app
    from murmuration import Pages

    sent = []

    async def send(message):
        sent.append(message)

    monkeypatch.setattr(murmur_pages.app, "make_app", lambda: 1 / 0)
    asyncio.run(Pages()({"type": "websocket"}, None, send))
    assert sent == []
