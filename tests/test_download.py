"""Files are fetched whole or not at all: against a server of our own that does all a server can."""

import gzip
import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pooch
import pytest

from rsgda.data import download, mnist
from rsgda.data.download import File, Source, locate
from rsgda.data.images import FASHION, MNIST

NAMES = [file.name for file in MNIST.files]
COUNTS = (3, 3, 2, 2)  # of train images and labels, test images and labels


def content_of(number: int) -> bytes:
    count = COUNTS[number]
    rng = np.random.default_rng(number)
    if number % 2:
        plain = bytes([0, 0, 8, 1, 0, 0, 0, count]) + bytes(range(count))
    else:
        pixels = rng.integers(0, 256, (count, 28, 28), np.uint8)
        plain = bytes([0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 28, 0, 0, 0, 28]) + pixels.tobytes()
    return gzip.compress(plain, mtime=0)


CONTENT = {name: content_of(number) for number, name in enumerate(NAMES)}
FILES = tuple(
    File(name, len(content), hashlib.sha256(content).hexdigest())
    for name, content in CONTENT.items()
)


class Handler(BaseHTTPRequestHandler):
    """The first part of the address says how the server behaves, the last is the file."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self):
        behaviour, _, name = self.path.strip("/").rpartition("/")
        self.server.asked.append(self.path)
        self.close_connection = True
        getattr(self, behaviour.replace("-", "_"))(CONTENT[name])

    def answer(self, content, length=None, status=200, headers=()):
        self.send_response(status)
        for header in headers:
            self.send_header(*header)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def good(self, content):
        self.answer(content, len(content))

    def no_length(self, content):
        self.answer(content)

    def cut(self, content):
        self.answer(content[: len(content) // 2], len(content))

    def cut_without_length(self, content):
        self.answer(content[: len(content) // 2])

    def dropped(self, content):
        self.connection.close()

    def other(self, content):
        self.answer(content[:-1] + bytes([content[-1] ^ 1]), len(content))

    def longer(self, content):
        self.answer(content + b"x", len(content) + 1)

    def endless(self, content):
        self.answer(content)
        try:
            while not self.server.closing.is_set():
                self.wfile.write(bytes(2**16))
        except OSError:
            self.server.hung_up.set()

    def shorter(self, content):
        self.answer(content[:-1], len(content) - 1)

    def nothing(self, content):
        self.answer(b"", 0)

    def missing(self, content):
        self.answer(b"no such file", 12, 404)

    def broken(self, content):
        self.answer(b"", 0, 500)

    def odd_length(self, content):
        self.answer(content, "many")

    def moved(self, content):
        name = self.path.rpartition("/")[2]
        self.answer(b"", 0, 302, [("Location", f"/good/{name}")])

    def circle(self, content):
        self.answer(b"", 0, 302, [("Location", self.path)])

    def unpacked(self, content):
        self.answer(content, len(content), headers=[("Content-Encoding", "gzip")])

    def stalled(self, content):
        self.answer(content[: len(content) // 2], len(content))
        self.server.closing.wait(20)

    def slow(self, content):
        self.answer(b"", len(content))
        for at in range(0, len(content), 500):
            self.wfile.write(content[at : at + 500])
            time.sleep(0.05)

    def in_company(self, content):
        """Answer for the first file once two processes have asked for it."""
        until = time.monotonic() + 30
        while self.path.endswith(NAMES[0]) and time.monotonic() < until:
            if self.server.asked.count(self.path) > 1:
                break
            time.sleep(0.01)
        self.good(content)

    def log_message(self, format, *args):
        """Say nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []
        self.closing, self.hung_up = threading.Event(), threading.Event()

    def handle_error(self, request, client_address):
        """Say nothing of connections that were dropped, by us or by them."""

    def mirror(self, behaviour):
        return f"http://127.0.0.1:{self.server_address[1]}/{behaviour}/"

    def source(self, *behaviours):
        return Source("MNIST", "mnist", tuple(self.mirror(how) for how in behaviours), FILES)


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.closing.set()
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no proxy between us and our server."""
    monkeypatch.delenv("RSGDA_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "cache" / "rsgda" / "mnist"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


@pytest.mark.parametrize("how", ["good", "no-length", "moved", "slow"])
def test_what_was_published_arrives(how, server, cache):
    source = server.source(how)
    paths = locate(source)
    assert paths == [cache / name for name in NAMES]
    assert contents(cache) == CONTENT
    asked = len(server.asked)
    assert locate(source) == paths
    assert len(server.asked) == asked  # the second time without the network


FAULTS = {
    "cut": "Connection broken",
    "cut-without-length": "bytes came",
    "dropped": "Connection aborted",
    "other": "does not match the known hash",
    "longer": "more than",
    "endless": "more than",
    "shorter": "bytes came",
    "nothing": "only 0 of",
    "missing": "404 Client Error",
    "broken": "500 Server Error",
    "odd-length": "'many'",
    "circle": "Exceeded 30 redirects",
    "unpacked": "bytes came",
    "stalled": "timed out",
}


@pytest.mark.parametrize("how", FAULTS)
def test_a_fault_leaves_nothing_and_the_next_mirror_is_tried(how, server, cache, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", (5, 0.3))
    bad = server.source(how, how)
    with pytest.raises(FileNotFoundError, match="fetching it failed") as caught:
        locate(bad)
    message = str(caught.value)
    assert message.count(FAULTS[how]) == 2, message
    assert message.count(bad.mirrors[0] + NAMES[0]) >= 2, message
    assert contents(cache) == {}
    server.asked.clear()
    locate(server.source(how, "good"))
    assert contents(cache) == CONTENT
    # The one that worked is asked first from then on.
    wrong = [path for path in server.asked if path.startswith(f"/{how}/")]
    assert set(wrong) == {f"/{how}/{NAMES[0]}"}


def test_no_more_is_taken_than_is_wanted(server):
    with pytest.raises(FileNotFoundError, match="more than"):
        locate(server.source("endless"))
    assert server.hung_up.wait(5)


def test_the_message_says_what_to_put_where(server, cache, tmp_path, monkeypatch):
    closed = Source("MNIST", "mnist", ("http://127.0.0.1:1/a/", "http://127.0.0.1:1/b/"), FILES)
    monkeypatch.setattr("rsgda.data.images.MNIST", closed)
    with pytest.raises(FileNotFoundError) as caught:
        mnist()
    message = str(caught.value)
    assert all(f"\n    {name}\n" in message for name in NAMES)
    assert f"into {cache}, or" in message
    assert "environment variable RSGDA_DATA" in message
    for mirror in closed.mirrors:
        assert f"\n    {mirror}{NAMES[0]}: " in message
    assert message.count("refused") == 2
    monkeypatch.setenv("RSGDA_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="RSGDA_DATA") as caught:
        mnist()
    assert f"or into {tmp_path / 'mnist'} (" in str(caught.value)
    # And what it says helps.
    cache.mkdir(parents=True, exist_ok=True)
    for name, content in CONTENT.items():
        (cache / name).write_bytes(content)
    assert mnist().X_train.shape == (3, 28, 28, 1)


@pytest.mark.parametrize("damage", [b"", b"other", CONTENT[NAMES[0]][:-1] + b"x"])
def test_a_damaged_file_in_the_cache_is_fetched_again(damage, server, cache):
    locate(server.source("good"))
    (cache / NAMES[0]).write_bytes(damage)
    with pytest.raises(FileNotFoundError, match=f"{NAMES[0]}: is not the file as published"):
        locate(server.source("missing"))
    assert contents(cache)[NAMES[0]] == damage
    server.asked.clear()
    locate(server.source("good"))
    assert contents(cache) == CONTENT
    assert server.asked == [f"/good/{NAMES[0]}"]


def test_a_cache_that_cannot_be_written_is_told(server, cache):
    cache.parent.parent.mkdir()
    cache.parent.write_text("a file where the folder should be")
    with pytest.raises(FileNotFoundError, match=r"(File exists|Not a directory)"):
        locate(server.source("good"))


def test_nothing_is_printed_unless_asked(server, cache, capfd, caplog):
    with caplog.at_level(logging.INFO, "rsgda"):
        locate(server.source("missing", "good"))
    assert capfd.readouterr() == ("", "")
    assert "404" in caplog.text
    assert pooch.get_logger().filters == []


def test_a_bar_is_shown_if_asked(server, cache, capfd):
    locate(server.source("cut", "good"), progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert all(f"MNIST {name}" in err for name in NAMES)
    locate(server.source("good"), progress=True)
    assert capfd.readouterr() == ("", "")


PROGRAM = """
import json, sys, pathlib, pooch
from rsgda.data.download import File, Source, locate
title, folder, mirrors, files, _ = json.loads(sys.argv[1])
pooch.os_cache = lambda project: pathlib.Path(sys.argv[2])
print("ready", flush=True)
locate(Source(title, folder, mirrors, [File(*file) for file in files]))
"""


def start(source, cache):
    command = [sys.executable, "-c", PROGRAM, json.dumps(source), str(cache.parent)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_several_processes_may_fetch_at_a_time(server, cache):
    source = server.source("in-company")
    processes = [start(source, cache) for _ in range(4)]
    for process in processes:
        assert process.communicate(timeout=60) == ("ready\n", "")
        assert process.returncode == 0
    assert contents(cache) == CONTENT
    assert len([path for path in server.asked if path.endswith(NAMES[0])]) > 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has another way to interrupt")
def test_an_interrupted_program_leaves_nothing(server, cache):
    with start(server.source("stalled"), cache) as process:
        while not server.asked:
            assert process.poll() is None
            time.sleep(0.01)
        assert len(contents(cache)) == 1  # what has come so far, under a name of its own
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert contents(cache) == {}


@pytest.mark.parametrize("source", [MNIST, FASHION], ids=lambda source: source.title)
def test_the_sources_are_well_formed(source):
    assert [file.name for file in source.files] == NAMES
    assert len(source.mirrors) == 2
    assert all(mirror.startswith("http") and mirror.endswith("/") for mirror in source.mirrors)
    assert all(len(bytes.fromhex(file.sha256)) == 32 for file in source.files)
    assert len({file.sha256 for file in (*MNIST.files, *FASHION.files)}) == 8
