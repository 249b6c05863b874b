"""Real servers on this machine, started as a person would start them and stopped after use."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

START_SECONDS = 240.0
CONTEXT = 512


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def server(command: Sequence[str], port: int, log: Path) -> Iterator[str]:
    """Runs a server until the block ends; gives its URL without a model.

    Raises:
        AssertionError: It did not begin to answer; its log is in the message.
    """
    # Several threads on tiny matrices compute no faster, and take the processors from other tests.
    quiet = {
        "OMP_WAIT_POLICY": "passive",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
    }
    with log.open("wb") as written:
        process = subprocess.Popen(
            command, stdout=written, stderr=subprocess.STDOUT, env={**os.environ, **quiet}
        )
    url = f"http://127.0.0.1:{port}/v1"
    try:
        until = time.monotonic() + START_SECONDS
        while not _answers(url):
            assert process.poll() is None, log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < until, log.read_text(errors="replace")[-3000:]
            time.sleep(0.2)
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    """Whether the server answers a request at all: one of them lists no models while the hub's cache is empty."""
    try:
        httpx.get(f"{url}/models", timeout=5.0, trust_env=False)
    except httpx.TransportError:
        return False
    return True


@contextmanager
def llama_cpp_python(weights: Path, folder: Path) -> Iterator[str]:
    """The server of `llama-cpp-python[server]`; gives the URL with its model."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "llama_cpp.server", "--model", str(weights)),
        *("--model_alias", "peer", "--n_ctx", str(CONTEXT), "--logits_all", "true"),
        *("--host", "127.0.0.1", "--port", str(port), "--verbose", "false"),
    ]
    with server(command, port, folder / "llama-cpp-python.log") as url:
        yield f"{url}#peer"


@contextmanager
def transformers_serve(model: Path, folder: Path) -> Iterator[str]:
    """`transformers serve` on a folder with a model; gives the URL with its model."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "transformers.cli.transformers", "serve", str(model)),
        *("--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1", "--port", str(port)),
    ]
    with server(command, port, folder / "transformers.log") as url:
        yield f"{url}#{model}"
