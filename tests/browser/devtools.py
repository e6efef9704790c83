"""A headless Chromium, spoken to over its DevTools pipe; the standard library is all it needs."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

# Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
LAUNCHER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""

FLAGS = [
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # whatever a page asks for, nothing leaves this machine
    "--no-first-run",
    "--no-default-browser-check",
]


class BrowserError(Exception):
    """The browser did not start, did not answer or refused a command."""


def find_chromium():
    """The path of a Chromium, or None."""
    names = [os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]
    return next((path for path in map(shutil.which, filter(None, names)) if path), None)


def _pipe():
    """A pipe whose ends are far from the descriptors that the launcher overwrites."""
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(end)
    return ends


class Browser:
    """`with Browser(path) as browser:`; commands and events as the DevTools protocol names them."""

    def __init__(self, chromium, timeout=60):
        self.timeout = timeout
        self.events = []
        self._last_id = 0
        self._buffer = b""
        self._profile = tempfile.TemporaryDirectory(prefix="heed-browser-", ignore_cleanup_errors=True)
        child_reads, self._commands = _pipe()
        self._answers, child_writes = _pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
        command = [chromium, *FLAGS, *sandbox, "--user-data-dir=" + self._profile.name, "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(child_reads), str(child_writes), *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(child_reads, child_writes))
        os.close(child_reads)
        os.close(child_writes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._commands)  # the end of its commands ends the browser
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)
        self._profile.cleanup()

    def open_tab(self):
        """A blank page; returns the session that later commands name."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        return self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def send(self, method, session=None, **parameters):
        """Runs one command and returns its result."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data):]
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self._receive(deadline, method)
            if answer.get("id") != self._last_id:
                self.events.append(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error'].get('message')}")
            else:
                return answer["result"]

    def wait_for(self, method, session):
        """Returns when that event of that session has come; earlier ones count."""
        deadline = time.monotonic() + self.timeout
        seen = 0
        while True:
            for event in self.events[seen:]:
                if event.get("method") == method and event.get("sessionId") == session:
                    return event["params"]
            seen = len(self.events)
            self.events.append(self._receive(deadline, method))

    def evaluate(self, session, expression):
        """The value of a JavaScript expression, or of the promise it gives."""
        result = self.send("Runtime.evaluate", session, expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError("script failed: " + json.dumps(result["exceptionDetails"])[:500])
        return result["result"].get("value")

    def _receive(self, deadline, what):
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0, deadline - time.monotonic()))
            data = os.read(self._answers, 1 << 16) if ready else b""
            if not data:
                reason = "the browser ended" if ready else f"no answer within {self.timeout} s"
                raise BrowserError(f"{what}: {reason}")
            self._buffer += data
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)
