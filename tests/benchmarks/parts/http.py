"""Measures the speed of replies over HTTP, compared with the model process: same model, prompts, lengths and machine.

The endpoint is the server of `llama-cpp-python[server]`, which generates one reply at a time; the model process
generates many in parallel, like servers with batching. So the ratio includes the cost of HTTP and of missing batching.
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.base import network_guard
from engine.base.conversation import render_log
from engine.base.errors import EndpointAway, EndpointError, PackageMissing
from engine.model.catalog import Catalog
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.client import Address, EndpointClient, parse_address
from engine.model.endpoints.fleet import Fleet
from engine.model.endpoints.model import EndpointModel
from engine.model.interface import LoadOptions, Sampling
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Generate, ModelClient, WrittenReply
from engine.model.prompt_files import Prompt
from engine.simulate.demo.samples import sample_conversations
from tests.benchmarks.parts.tuning import tuned_entry

CONTEXT = 2048
PROMPT = Prompt("rest", False, "Log:\n\n", "\n\nTURN", "", "", "", (), 32)
START_SECONDS = 180.0


def bench_http(
    catalog: Catalog,
    process: ModelProcess,
    progress: Callable[[str], None],
    *,
    log: Path,
    replies: int = 16,
) -> dict[str, Any]:
    """Writes replies both ways.

    Args:
        log: File that gets the server's output.

    Returns:
        `tokens_per_s` over HTTP, `in_process_tokens_per_s`, `fraction_of_in_process`, `replies`.

    Raises:
        UsageError: The server is not installed.
        ModelError: It does not start.
    """
    if not all(map(importlib.util.find_spec, ("fastapi", "uvicorn", "sse_starlette"))):
        raise PackageMissing(
            "The part http needs a server.", "Install it: `pip install llama-cpp-python[server]`."
        )
    tuned_entry(catalog, process, progress)
    model = catalog.loadable(catalog.entry(None))
    made = sorted(sample_conversations(4 * replies), key=lambda one: len(str(one.messages)))
    logs = [([piece.text for piece in render_log(one.messages)], 0) for one in made[:replies]]
    progress("replies in the model process")
    process.load(model.path, LoadOptions(context=CONTEXT, threads=model.options.threads))
    _timed(process, logs[:1])
    here, here_seconds = _timed(process, logs)
    process.close()
    progress("replies over HTTP")
    with _server(model.path, log) as address:
        can = Capabilities(completions=True, controls=True)
        fleet = Fleet([(EndpointClient(address), None)])
        remote = EndpointModel("the server", fleet, can, {})
        remote.load(Path(), LoadOptions())
        _timed(remote, logs[:1])
        remote.load(Path(), LoadOptions())
        _, there_seconds = _timed(remote, logs)
    speed = fleet.account.written / there_seconds
    own = sum(len(reply.tokens) for reply in here) / here_seconds
    return {
        "model": model.label,
        "replies": replies,
        "tokens_per_s": speed,
        "in_process_tokens_per_s": own,
        "fraction_of_in_process": speed / own,
    }


def _timed(
    model: ModelClient, logs: Sequence[tuple[Sequence[str], int]]
) -> tuple[list[WrittenReply], float]:
    began = time.perf_counter()
    found = model.ask(Generate(logs, PROMPT, sampling=Sampling(), max_tokens=PROMPT.max_tokens))
    return found, time.perf_counter() - began


@contextmanager
def _server(weights: Path, log: Path) -> Iterator[Address]:
    """Runs the server until the block ends."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    address = parse_address(f"http://127.0.0.1:{port}/v1#bench")
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "llama_cpp.server", "--model", str(weights)),
        *("--model_alias", "bench", "--n_ctx", str(CONTEXT), "--verbose", "false"),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]
    with log.open("wb") as written:
        process = subprocess.Popen(
            command, stdout=written, stderr=subprocess.STDOUT, env=network_guard.child_environment()
        )
    try:
        _wait_for(address, process, log)
        yield address
    finally:
        process.kill()
        process.wait()


def _wait_for(address: Address, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            EndpointClient(address, attempts=1).ask_blocking("models", None)
            return
        except EndpointAway as error:
            if process.poll() is not None or time.monotonic() > until:
                raise EndpointError("The server did not start.", f"Its log is {log}.") from error
            time.sleep(0.5)
