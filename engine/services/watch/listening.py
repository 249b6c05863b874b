"""Takes records and traces over HTTP on this machine, and writes them to files that a watch follows.

`POST /` takes one JSON object, an array of objects, or JSON Lines; `POST /v1/traces` takes traces as OTLP/HTTP sends
them in JSON (OpenTelemetry Protocol 1.3, OTLP/HTTP, JSON Protobuf encoding). An answer of 200 means that what was sent
is on the disk. The files are read like any other log that grows, so nothing is imported here.

What is covered: other machines cannot connect, because only a loopback address is listened on; a page in a browser of
this machine is refused by its `Origin` and by the name in `Host` (DNS rebinding); a request is bounded in size, also
unpacked, in time and in number. What is not covered: other programs and people of this machine can send, since there
is no password; the files grow until someone deletes the folder.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import socket
import socketserver
import threading
import zlib
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from engine.errors import UsageError

_log = logging.getLogger(__name__)

MOST_BYTES = 32 << 20
"""Bytes of a request, unpacked."""
MOST_AT_ONCE = 16
"""Requests that are worked on at a time; others are asked to come again."""
PATIENCE = 30.0
"""Seconds without a byte after which a request is given up."""

RECORDS, TRACES = "records.jsonl", "traces.jsonl"
"""The files: a line for each record, and for each request with traces."""

_NAMES = ("localhost", "127.0.0.1", "[::1]")


class Refused(Exception):
    """A request that is not taken; becomes an answer with this status."""

    def __init__(self, status: HTTPStatus, error: str, hint: str) -> None:
        super().__init__(status, error, hint)
        self.status, self.error, self.hint = status, error, hint


def address_of(text: str) -> tuple[str, int]:
    """The address and port of `[HOST:]PORT`; without a host that of this machine alone.

    Raises:
        UsageError: It is no port, or the host is another than this machine.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise UsageError(
            f"{text!r} is no port to listen on.", "Write a number, as in `--listen 4318`."
        )
    if host in ("", "localhost"):
        host = "127.0.0.1"
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise UsageError(
            f"{host} can be reached from other machines, and there is no password.",
            "Listen on 127.0.0.1, and let other machines in with `ssh -R` or a proxy that asks who they are.",
        )
    return host, int(port)


class Listener:
    """Listens from its making on until it is closed; use it as a context manager.

    Attributes:
        folder: Where the files are.
        url: The address, with the port that was found for port 0.
    """

    def __init__(self, address: tuple[str, int], folder: Path) -> None:
        """Begins to listen.

        Raises:
            UsageError: The port is taken, or the folder cannot be written.
        """
        self.folder = folder
        self._guard = threading.Lock()
        try:
            folder.mkdir(exist_ok=True)
            self._files = {
                name: _opened(folder / name)
                for name in (RECORDS, TRACES)
                if (folder / name).exists()
            }
        except OSError as error:
            raise UsageError(
                f"{folder} cannot be written: {error.strerror}.",
                "What is sent is kept there, beside the project. Make room or change its rights.",
            ) from error
        try:
            self._server = _Server(address, self.append)
        except OSError as error:
            self._close_files()
            raise UsageError(
                f"Port {address[1]} cannot be listened on: {error.strerror}.",
                "Choose another, as in `--listen 4319`.",
            ) from error
        host, port = self._server.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        self.url = f"http://{shown}:{port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="listener", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops listening; requests in work are answered first."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._close_files()

    def append(self, name: str, lines: bytes) -> None:
        """Writes lines to the end of a file and waits until they are on the disk; all of them or none.

        Raises:
            OSError: The disk is full, or broken.
        """
        with self._guard:
            if name not in self._files:
                self._files[name] = _opened(self.folder / name)
            file = self._files[name]
            end = os.lseek(file, 0, os.SEEK_END)
            try:
                view = memoryview(lines)
                while view:
                    view = view[os.write(file, view) :]
                os.fsync(file)
            except OSError:
                os.ftruncate(file, end)
                raise

    def _close_files(self) -> None:
        for file in self._files.values():
            os.close(file)


def _opened(path: Path) -> int:
    """Opens a file of lines to write at its end; a last line that a kill cut off was never answered, and goes."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = os.lseek(file, 0, os.SEEK_END)
    while end and os.pread(file, 1, end - 1) != b"\n":
        start = max(0, end - (1 << 16))
        end = start + os.pread(file, end - start, start).rfind(b"\n") + 1
    os.ftruncate(file, end)
    return file


class _Server(socketserver.ThreadingMixIn, HTTPServer):
    """A thread for each request."""

    daemon_threads = True
    block_on_close = True

    def __init__(self, address: tuple[str, int], append: Callable[[str, bytes], None]) -> None:
        self.append = append
        self.room = threading.BoundedSemaphore(MOST_AT_ONCE)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no fault of the program."""
        _log.info("a request ended early", exc_info=True)

    def server_bind(self) -> None:
        """As in TCPServer; HTTPServer would look up a name for the address."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[0], self.server_address[1]  # type: ignore[assignment]


class _Handler(BaseHTTPRequestHandler):
    """Answers with JSON: what was stored, or what is wrong and what to do."""

    server: _Server
    server_version, sys_version = "workbench", ""
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def do_GET(self) -> None:
        """Says what can be sent."""
        self._answer(
            HTTPStatus.METHOD_NOT_ALLOWED,
            {
                "error": "Nothing can be read here.",
                "hint": "POST records to / or traces to /v1/traces.",
            },
        )

    def do_POST(self) -> None:
        """Stores what is sent."""
        if not self.server.room.acquire(blocking=False):
            self.close_connection = True
            self._answer(
                HTTPStatus.SERVICE_UNAVAILABLE,
                {"error": "Too many requests at once.", "hint": "Send it again in a second."},
                {"Retry-After": "1"},
            )
            return
        try:
            self._answer(HTTPStatus.OK, self._stored())
        except Refused as refused:
            self.close_connection = True  # the body may be unread
            self._answer(refused.status, {"error": refused.error, "hint": refused.hint})
        finally:
            self.server.room.release()

    def _stored(self) -> dict[str, Any]:
        self._check_sender()
        path = self.path.partition("?")[0]
        if path not in ("/", "/v1/traces"):
            raise Refused(
                HTTPStatus.NOT_FOUND,
                f"There is no {path} here.",
                "POST records to / or traces to /v1/traces.",
            )
        body = self._body()
        if path == "/v1/traces":
            self._store(TRACES, trace_line(body))
            return {"partialSuccess": {}}
        lines = record_lines(body)
        self._store(RECORDS, b"".join(lines))
        return {"stored": len(lines)}

    def _store(self, name: str, lines: bytes) -> None:
        try:
            self.server.append(name, lines)
        except OSError as error:
            raise Refused(
                HTTPStatus.INSUFFICIENT_STORAGE,
                f"It was not stored: {error.strerror}.",
                "Send it again later.",
            ) from error

    def _check_sender(self) -> None:
        host = self.headers.get("Host", "").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in _NAMES or self.headers.get("Origin") is not None:
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "Pages of a browser, and other names than localhost, are refused.",
                "Send it from a program to 127.0.0.1.",
            )

    def _body(self) -> bytes:
        kind = self.headers.get("Content-Type", "")
        if "protobuf" in kind:
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "Protobuf is not read, JSON is.",
                "Set OTEL_EXPORTER_OTLP_PROTOCOL=http/json.",
            )
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            raise Refused(
                HTTPStatus.LENGTH_REQUIRED,
                "The request does not say how long it is.",
                "Send it with Content-Length.",
            )
        if int(length) > MOST_BYTES:
            raise _too_large()
        try:
            body = self.rfile.read(int(length))
        except TimeoutError:
            body = b""
        if len(body) < int(length):
            raise Refused(HTTPStatus.BAD_REQUEST, "The request broke off.", "Send it again.")
        coding = self.headers.get("Content-Encoding", "identity").lower()
        if coding == "gzip":
            return _unpacked(body)
        if coding != "identity":
            raise Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"{coding} is not unpacked, gzip is.",
                "Send it plain or with gzip.",
            )
        return body

    def _answer(
        self, status: HTTPStatus, values: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        body = json.dumps(values).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the events are what is printed."""


def _too_large() -> Refused:
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"A request may have {MOST_BYTES >> 20} MiB, unpacked.",
        "Send it in several.",
    )


def _unpacked(body: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        found = unpacker.decompress(body, MOST_BYTES + 1)
    except zlib.error as error:
        raise Refused(
            HTTPStatus.BAD_REQUEST, f"This is no gzip: {error}.", "Send it plain."
        ) from error
    if len(found) > MOST_BYTES:
        raise _too_large()
    if not unpacker.eof:
        raise Refused(HTTPStatus.BAD_REQUEST, "The gzip breaks off.", "Send it again.")
    return found


def record_lines(body: bytes) -> list[bytes]:
    """The records of a request, each as one line with its end.

    Raises:
        Refused: It is neither a JSON object, an array of objects, nor JSON Lines.
    """
    try:
        whole = _parsed(body)
    except ValueError:
        found = []
        for number, line in enumerate(body.splitlines(), 1):
            if line.strip():
                try:
                    found.append(_parsed(line))
                except ValueError as error:
                    raise _bad(f"Line {number} is no JSON: {error}.") from error
    else:
        found = whole if isinstance(whole, list) else [whole]
    for number, one in enumerate(found, 1):
        if not isinstance(one, dict):
            raise _bad(f"Record {number} is no JSON object.")
    if not found:
        raise _bad("There is no record in it.")
    return [_line(one) for one in found]


def trace_line(body: bytes) -> bytes:
    """The traces of a request as one line with its end.

    Raises:
        Refused: It is no OTLP request in JSON.
    """
    hint = "An OTLP request in JSON is an object with the key resourceSpans."
    try:
        found = _parsed(body)
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"This is no JSON: {error}.", hint) from error
    if not isinstance(found, dict) or not isinstance(found.get("resourceSpans"), list):
        raise Refused(HTTPStatus.BAD_REQUEST, "This is no OTLP request with traces.", hint)
    return _line(found)


def _bad(error: str) -> Refused:
    return Refused(
        HTTPStatus.BAD_REQUEST,
        error,
        "Send one JSON object, an array of objects, or one object a line; nothing of this was stored.",
    )


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _line(record: dict[str, Any]) -> bytes:
    try:
        return json.dumps(record, ensure_ascii=True).encode("ascii") + b"\n"
    except RecursionError:
        raise _bad("It is nested too deeply.") from None
