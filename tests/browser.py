"""Drive a headless Chromium by its DevTools protocol: open pages signed in, take screenshots, see every request.

Debian's `chromium` is enough; `websockets`, which Airflow's server brings, speaks the protocol. Tests skip where there
is no Chromium.
"""

import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "no Chromium is installed (on Debian: apt install chromium)"
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--mute-audio",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
]
START_SECONDS = 60.0
PAGE_SECONDS = 180.0  # on a machine that others use, too, one answer has taken more than a minute


class Browser:
    """Hold one tab of a running Chromium."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._number = socket, 0
        self.requests: list[str] = []
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self._number += 1
        number = self._number
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        deadline = time.monotonic() + PAGE_SECONDS
        while time.monotonic() < deadline:
            answer = self._receive(deadline - time.monotonic())
            if answer is not None and answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
        raise AssertionError(f"Chromium did not answer to {method}")

    def sign_in(self, url: str, token: str) -> None:
        """Give the browser the cookie with which Airflow knows an account."""
        self.call("Network.setCookie", url=url, name="_token", value=token)

    def forget(self) -> None:
        """Remove all cookies."""
        self.call("Network.clearBrowserCookies")

    def look(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Choose the size of the window and the colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)

    def open(self, url: str, *, text: str, frame: bool = False) -> None:
        """Open a page and wait until it, or the frame in it, shows a text."""
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + PAGE_SECONDS
        while time.monotonic() < deadline:
            if text in self.text(frame=frame):
                return
            self.wait(0.2)
        raise AssertionError(f"{url} does not show {text!r} but: {self.text(frame=frame)[:2000]}")

    def text(self, *, frame: bool = False) -> str:
        """Return what the page, or the first frame in it, shows."""
        inner = "document.querySelector('iframe')?.contentDocument?.body?.innerText"
        return str(self.run(inner if frame else "document.body?.innerText") or "")

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return int(self.run("document.documentElement.scrollWidth - window.innerWidth"))

    def screenshot(self, path: Path, *, whole: bool = False) -> Path:
        """Write a picture of the window, or of the whole page."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(picture["data"]))
        return path

    def foreign_requests(self, url: str) -> list[str]:
        """Return the addresses that were asked for and are neither of `url` nor in the page itself."""
        return [one for one in self.requests if not one.startswith((url, "data:", "blob:", "about:"))]

    def wait(self, seconds: float) -> None:
        """Let the page go on, and note what it asks for."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._receive(left)

    def _receive(self, seconds: float) -> dict[str, Any] | None:
        try:
            answer = json.loads(self._socket.recv(timeout=max(seconds, 0.01)))
        except TimeoutError:
            return None
        if answer.get("method") == "Network.requestWillBeSent":
            self.requests.append(answer["params"]["request"]["url"])
        return answer


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start a Chromium with an empty profile; it ends with the block."""
    assert PROGRAM is not None, MISSING
    with tempfile.TemporaryDirectory(prefix="murmur-chromium-", ignore_cleanup_errors=True) as profile:
        command = [PROGRAM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            with connect(_tab(_port(process)), max_size=1 << 28, proxy=None) as socket:
                yield Browser(socket)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stderr:
                process.stderr.close()


def _port(process: "subprocess.Popen[str]") -> int:
    """Return the port on which Chromium waits for commands, which it prints."""
    assert process.stderr is not None
    deadline, said = time.monotonic() + START_SECONDS, []
    while time.monotonic() < deadline:
        line = process.stderr.readline()
        if not line:
            break
        said.append(line)
        if found := re.search(r"DevTools listening on ws://[^:]+:(\d+)/", line):
            return int(found.group(1))
    raise AssertionError(f"Chromium did not start: {''.join(said)[-2000:]}")


def _tab(port: int) -> str:
    """Return the address of the only tab."""
    tabs = httpx.get(f"http://127.0.0.1:{port}/json/list", trust_env=False).json()
    (tab,) = (one for one in tabs if one["type"] == "page")
    return str(tab["webSocketDebuggerUrl"])
