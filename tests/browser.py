"""A real Chromium without a window, spoken to over a pair of pipes; no driver is needed."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
SECONDS = 60.0


class Browser:
    """A page in a browser."""

    def __init__(self, profile: Path):
        """Start it with a profile of its own, and open an empty page."""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [PROGRAM, *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        redirect = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out} 2>/dev/null'
        self._process = subprocess.Popen(
            ["bash", "-c", redirect, "browser", *command], pass_fds=(theirs_in, theirs_out)
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._count, self._session = b"", 0, None
        self.events = []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        attached = self("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def close(self):
        """End it; only this one, and what it started."""
        with contextlib.suppress(OSError, RuntimeError):
            self._session = None
            self("Browser.close")
        os.close(self._out)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)

    def __call__(self, method, **arguments):
        """Call a method of the protocol."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": arguments}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _next(self):
        until = time.monotonic() + SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self._in, 1 << 20) if ready else b""
            if not part:
                raise RuntimeError(f"the browser said nothing for {SECONDS:g} s, or has ended")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, path, *, width=1280, height=900, dark=False, phone=False):
        """Open a file, at a size and in a scheme."""
        self(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, mobile=phone,
            deviceScaleFactor=1,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self("Page.navigate", url=Path(path).absolute().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def run(self, code):
        """Return what an expression of JavaScript comes to, as JSON has it."""
        found = self("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def complaints(self):
        """Return what a user would find in red in the console, and what was asked of a network."""
        self.run("0")
        found = []
        for event in self.events:
            method, said = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(said["exceptionDetails"]))
            if method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
                found.append(said["entry"]["text"])
            if method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning"):
                found.append(str(said["args"]))
            if method == "Network.requestWillBeSent":
                url = said["request"]["url"]
                if not url.startswith(("file:", "data:", "about:")):
                    found.append(url)
        return found

    def picture(self, path, *, whole=False):
        """Keep what is seen, or the whole page, as a PNG."""
        shot = self("Page.captureScreenshot", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(shot["data"]))
