"""A server on this machine that never comes to the end of an answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PAUSE = 0.02
"""Seconds between two bytes."""


@contextmanager
def dripping(start: bytes) -> Iterator[str]:
    """The base URL of a server that answers each request with these bytes, and then with a blank every `PAUSE` seconds
    until the client or this block ends."""
    ended = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(start)
            while not ended.wait(PAUSE):
                connection.sendall(b" ")

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = server.accept()[0]
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            server.shutdown(socket.SHUT_RDWR)
