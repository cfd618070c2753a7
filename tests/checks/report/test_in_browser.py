"""Open report.html in headless Chromium: nothing is fetched, and nothing is wider than a telephone."""

import html
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace

import made_releases as made
import pytest

from checks.registry import registered
from checks.report import MethodWords, OwnerFacts, Past, PastRelease, write_owner_report
from checks.result import CheckResult, Outcome, Verdict
from checks.stats import Risk

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=2000",
)  # fmt: skip
PAST = Past((PastRelease("2025-12-01", 250, 40, 250, "withdrawn", 7),), 50, 9, 40, waiting=21, withdrawn=1)
MEASURE = """<script>
document.querySelectorAll("details").forEach(one => one.open = true);
const wide = [...document.querySelectorAll("body *")].filter(one => !one.closest("svg") && !one.closest(".skip")
  && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.className || one.tagName);
parent.document.body.dataset.measured = [innerWidth, document.documentElement.scrollWidth, ...wide].join(" ");
</script>"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def page(releases, tmp_path_factory):
    """Write the owner's edition, refused, with every kind of line: the longest page there is."""
    opened = made.case(releases["simple"], tmp_path_factory.mktemp("browser"))
    states = ({"passed": True}, {"passed": False, "void": True}, {"passed": True, "applicable": False})
    lines = [
        CheckResult(
            check.name, observed=0.12345, threshold=0.2, ci_low=0.1, ci_high=0.15, n=12_345, severity=check.severity,
            detail="A detail of many words. " * 20, control=True, control_share=0.97,
            outcomes=(Outcome("8 random, some wrong, days", Risk(300, 1234, 0.1), group_top={1: 0.5}),),
            **states[place % 3],
        )
        for place, check in enumerate(registered().values())
    ]  # fmt: skip
    owner = OwnerFacts("raise `privacy.k` with `murmur run CONFIG --snapshot 2026-01-01 --find-k`", past=PAST)
    words = MethodWords(publishes="Everybody in a group has the same profile.")
    place = opened.release.directory
    write_owner_report(
        opened.private, place, replace(Verdict(lines)), opened.private / "utility", words, owner
    )
    return (opened.private / "report.html").read_text()


def opened_in(browser_dir, text, width):
    """Open a page: return the document as it became, and the addresses that were asked for over the network."""
    (browser_dir / "page.html").write_text(text)
    log = browser_dir / "net.json"
    run = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={browser_dir / 'profile'}", f"--window-size={width},844",
         f"--log-net-log={log}", "--dump-dom", (browser_dir / "page.html").as_uri()],
        capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(browser_dir)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    events = json.loads(log.read_text())["events"]
    params = [event["params"] for event in events if "initiator" in event.get("params", {})]
    # What the browser asks for by itself (the time, its start page) has no origin.
    asked = {one["url"] for one in params if one["initiator"] != "not an origin"}
    return run.stdout, {url for url in asked if re.match(r"(https?|wss?|ftp)://", url)}


def test_no_request_leaves_the_machine(page, tmp_path):
    for name, text, fetched in (
        ("report", page, set()),
        ("control", "<img src='http://127.0.0.1:9/x.png'>", {"http://127.0.0.1:9/x.png"}),
    ):
        (tmp_path / name).mkdir()
        assert opened_in(tmp_path / name, text, 1440)[1] == fetched, name


@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_wider_than_the_window(page, tmp_path, width):
    def measured(text):
        inside = html.escape(text.replace("</body>", f"{MEASURE}</body>"))
        # A frame, because a window of the browser cannot be as narrow as a telephone.
        frame = (
            f"<body><iframe width={width} height=844 style='border:0' srcdoc=\"{inside}\"></iframe></body>"
        )
        document, _ = opened_in(tmp_path, frame, 1600)
        inner, scrolled, *wide = re.search(r'data-measured="([^"]*)"', document)[1].split()
        return int(inner), int(scrolled), wide

    assert measured(page) == (width, width, [])
    planted = page.replace("</main>", '<p class="planted">' + "x" * 400 + "</p></main>").replace(
        "overflow-wrap: break-word", "overflow-wrap: normal"
    )
    inner, scrolled, _ = measured(planted)
    assert scrolled > inner
