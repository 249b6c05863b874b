"""The toy model behind HTTP on this machine, as servers of several kinds, with faults on demand. Its answers are
computed from the toy's definition, so they can be compared with the same model in process. The servers follow their
documentation.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import numpy as np

from engine.model.interface import Sampling, log_probs
from tests.engine.model.toy import CONTROL, END, VOCABULARY, ToyModel, next_logits

Manner = Literal["vllm", "llama-server", "llama-cpp-python", "chat", "bare"]
Answer = tuple[int, Any]
Fault = Callable[["Handler", dict[str, Any]], Answer | None]
"""Answers in place of the peer; None where it has answered or hung up itself."""

NAMES = {token: text for text, token in CONTROL.items()}
MODEL = "toy"
_LETTERS = np.array([chr(token).islower() and token < 128 for token in range(VOCABULARY)])


class RefusedRequest(Exception):
    """A request that the peer answers with an error."""


class ToyPeer:
    """One server.

    Attributes:
        faults: What happens to the next requests for completions or messages, one each.
        requests: Paths and bodies that were posted.
        keys: Authorization headers of all requests.
        active: Requests that are under way now.
        delay: Seconds that each completion takes.
    """

    def __init__(self, manner: Manner, *, context: int = 4096, top: int = 20) -> None:
        self.manner, self.context, self.top = manner, context, top
        self.toy = ToyModel()
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[str | None] = []
        self.delay = 0.0
        self.active = 0
        self._guard = threading.Lock()
        peer = self

        class BoundHandler(Handler):
            pass

        BoundHandler.peer = peer
        self.server = QuietServer(("127.0.0.1", 0), BoundHandler)
        self.server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.url = f"{self.base}#{MODEL}"

    @property
    def completions(self) -> list[dict[str, Any]]:
        """Bodies of the requests for completions."""
        return [body for path, body in self.requests if path == "/v1/completions"]

    # What it says

    def get(self, path: str) -> Answer:
        """The answer to a GET request."""
        if path == "/v1/models":
            entry: dict[str, Any] = {"id": MODEL}
            if self.manner == "vllm":
                entry["max_model_len"] = self.context
            return 200, {"data": [entry]}
        if path == "/props" and self.manner == "llama-server":
            settings = {"n_ctx": self.context}
            props = {"default_generation_settings": settings, "total_slots": 4}
            return 200, {**props, "build_info": "b1-toy", "eos_token": NAMES[END]}
        if path == "/version" and self.manner == "vllm":
            return 200, {"version": "0-toy"}
        return 404, {"error": "no such path"}

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        """The answer to a POST request."""
        try:
            if path == "/v1/completions" and self.manner != "chat":
                return 200, self._complete(body)
            if path == "/v1/chat/completions":
                return 200, self._say(body)
            return self._own(path, body)
        except RefusedRequest as error:
            return 400, {"error": {"message": str(error)}}

    def _own(self, path: str, body: dict[str, Any]) -> Answer:
        if self.manner == "vllm" and path == "/tokenize":
            if "messages" in body:
                text = self.toy.render_chat(body["messages"])
                return 200, {"tokens": self.toy.tokenize(text, special=True)}
            start = bool(body.get("add_special_tokens", True))
            return 200, {"tokens": self.toy.tokenize(body["prompt"], special=True, start=start)}
        if self.manner == "llama-server" and path == "/tokenize":
            special, start = body.get("parse_special", True), body.get("add_special", False)
            text = body.get("content", "")
            return 200, {"tokens": self.toy.tokenize(text, special=special, start=start)}
        if self.manner == "llama-server" and path == "/apply-template":
            return 200, {"prompt": self.toy.render_chat(body["messages"])}
        if self.manner in ("vllm", "llama-server") and path == "/detokenize":
            name = "prompt" if self.manner == "vllm" else "content"
            return 200, {name: self._spelled(body["tokens"], "replace")}
        if self.manner == "llama-cpp-python" and path == "/extras/tokenize":
            return 200, {"tokens": self.toy.tokenize(body["input"], special=True, start=True)}
        if self.manner == "llama-cpp-python" and path == "/extras/detokenize":
            return 200, {"text": b"".join(map(self.toy.token_bytes, body["tokens"])).decode()}
        return 404, {"error": "no such path"}

    def _spelled(self, tokens: Sequence[int], errors: str) -> str:
        parts = [NAMES[t].encode() if t in NAMES else bytes([t]) for t in tokens]
        return b"".join(parts).decode("utf-8", errors)

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = body["prompt"]
        if isinstance(prompt, list):
            if self.manner not in ("vllm", "llama-server"):
                raise RefusedRequest("a prompt is a text")
            tokens = list(prompt)
        else:
            tokens = self.toy.tokenize(prompt, special=True, start=True)
        written, ended = self._write(tokens, body)
        text = self._spelled([token for token in written if token not in (END, 0)], "replace")
        choice: dict[str, Any] = {"finish_reason": ended, "text": text}
        usage = {"prompt_tokens": len(tokens), "completion_tokens": len(written)}
        return {"choices": [choice], "usage": usage}

    def _say(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = list(body["messages"])
        begun = messages.pop()["content"] if messages[-1]["role"] == "assistant" else ""
        continues = self.manner == "vllm" and body.get("continue_final_message")
        if begun and not (continues or self.manner == "llama-server"):
            begun = ""
        tokens = self.toy.tokenize(self.toy.render_chat(messages) + begun, special=True)
        written, ended = self._write(tokens, body, plain=True)
        text = self._spelled([token for token in written if token not in (END, 0)], "replace")
        said = {"role": "assistant", "content": text}
        choice: dict[str, Any] = {"finish_reason": ended, "message": said}
        if body.get("logprobs") and self.manner != "bare":
            count = min(self.top, body["top_logprobs"])
            choice["logprobs"] = {"content": self._listed(tokens, written, count)}
        usage = {"prompt_tokens": len(tokens), "completion_tokens": len(written)}
        return {"choices": [choice], "usage": usage}

    def _write(
        self, prompt: Sequence[int], body: dict[str, Any], *, plain: bool = False
    ) -> tuple[list[int], str]:
        """Generated tokens and the finish reason; `plain` chooses among small letters, which survive being text."""
        count = int(body.get("max_tokens", 16))
        if len(prompt) + count > self.context:
            raise RefusedRequest(f"maximum context length is {self.context} tokens")
        stops = [text.encode() for text in body.get("stop") or []]
        settings = Sampling(temperature=float(body.get("temperature", 1.0)))
        chooser = self.toy.sampler(settings, int(body.get("seed", time.monotonic_ns() % 2**31)))
        tokens: list[int] = []
        while len(tokens) < count:
            logits = next_logits([*prompt, *tokens])
            if plain:
                logits = np.where(_LETTERS, logits, np.float32(-100))
            token = chooser.pick(logits)
            if token in (END, 0):
                return [*tokens, token], "stop"
            tokens.append(token)
            text = b"".join(map(self.toy.token_bytes, tokens))
            found = [at for stop in stops if (at := text.find(stop)) >= 0]
            if found:
                return list(text[: min(found)]), "stop"
        return tokens, "length"

    def _listed(
        self, prompt: Sequence[int], written: Sequence[int], count: int
    ) -> list[dict[str, Any]]:
        entries = []
        for at, token in enumerate(written):
            values = log_probs(next_logits([*prompt, *written[:at]]), range(VOCABULARY))
            best = np.argsort(-values, kind="stable")[:count]
            top = [self._entry(int(one), float(values[one])) for one in best]
            entries.append({**self._entry(token, float(values[token])), "top_logprobs": top})
        return entries

    def _entry(self, token: int, log_p: float) -> dict[str, Any]:
        raw = list(self.toy.token_bytes(token))
        return {"token": self._spelled([token], "replace"), "bytes": raw, "logprob": log_p}

    # Counting

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Counts a request as active while it is answered."""
        with self._guard:
            self.active += 1
        try:
            yield
        finally:
            with self._guard:
                self.active -= 1

    def next_fault(self) -> Fault | None:
        """The fault of this request, if it has one."""
        with self._guard:
            return self.faults.pop(0) if self.faults else None


class QuietServer(ThreadingHTTPServer):
    """Prints nothing about clients that hang up, as they do when a run is cancelled; prints other faults."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints an exception of a request thread."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def on_thread(server: ThreadingHTTPServer) -> Iterator[None]:
    """Runs a server on a thread of its own until the block ends."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class JsonHandler(BaseHTTPRequestHandler):
    """Reads and sends JSON, and logs nothing."""

    protocol_version = "HTTP/1.1"

    def body(self) -> dict[str, Any]:
        """The body of the request."""
        read: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
        return read

    def say(self, code: int, what: Any, headers: dict[str, str] | None = None) -> None:
        """Sends an answer."""
        raw = what if isinstance(what, bytes) else json.dumps(what).encode()
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""


class Handler(JsonHandler):
    """Answers HTTP requests for a peer."""

    peer: ToyPeer

    def do_GET(self) -> None:
        """Sends the peer's answer."""
        self.peer.keys.append(self.headers.get("authorization"))
        self.say(*self.peer.get(self.path))

    def do_POST(self) -> None:
        """Sends the peer's answer, or does what the fault of this request requires."""
        body, peer = self.body(), self.peer
        peer.keys.append(self.headers.get("authorization"))
        peer.requests.append((self.path, body))
        with peer.under_way():
            if self.path.endswith("completions"):
                time.sleep(peer.delay)
                if fault := peer.next_fault():
                    answer = fault(self, body)
                    if answer is not None:
                        self.say(*answer)
                    return
            self.say(*peer.post(self.path, body))


def says(code: int, what: Any, **headers: str) -> Fault:
    """A fault that answers with this status and body; header names are written with _ for -."""

    def fault(handler: Handler, body: dict[str, Any]) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.say(code, what, named)

    return fault


def hangs_up(handler: Handler, body: dict[str, Any]) -> None:
    """A fault that closes the connection in the middle of an answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    handler.connection.close()
    handler.close_connection = True


@contextmanager
def running(manner: Manner, **options: Any) -> Iterator[ToyPeer]:
    """A peer that runs until the block ends."""
    peer = ToyPeer(manner, **options)
    with on_thread(peer.server):
        yield peer
