"""Embeddings over HTTP against a real server on this machine: its vectors and invalid answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from engine.base.errors import ModelError, UsageError
from engine.model.embedders.embedder import HttpEmbedder, embedder_for
from engine.model.embedders.vectors import BATCH
from tests.engine.model.endpoints.toy_peer import JsonHandler, on_thread

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


class Endpoint:
    """An endpoint on this machine.

    Attributes:
        answers: What it answers to embedding requests, one after the other; the last one again and again.
        asked: Bodies of the embedding requests.
        keys: Their Authorization headers.
    """

    def __init__(self) -> None:
        self.answers: list[Answer] = [embeddings]
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        endpoint = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                found = self.path == "/v1/models"
                self.say(200 if found else 404, {"data": [{"id": "small"}]})

            def do_POST(self) -> None:
                body = self.body()
                endpoint.asked.append(body)
                endpoint.keys.append(self.headers.get("authorization"))
                answers = endpoint.answers
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                code, said = (
                    answer(body) if self.path == "/v1/embeddings" else (404, "no such path")
                )
                self.say(code, said)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


def embeddings(body: dict[str, Any]) -> tuple[int, Any]:
    """A vector of each text's length and first letter; the rows in reverse order, as a server may send them."""
    data = [
        {"index": number, "embedding": [len(text), ord(text[0]), 1.0]}
        for number, text in enumerate(body["input"])
    ]
    return 200, {"data": data[::-1]}


def says(code: int, what: Any) -> Answer:
    """Makes the endpoint give this answer to every request."""
    return lambda body: (code, what)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Runs while the test does."""
    made = Endpoint()
    with on_thread(made.server):
        yield made


class TestAnswers:
    def test_vectors(self, endpoint: Endpoint) -> None:
        """Each text has its row of length 1, whatever the order of rows in the answer; blank texts are not sent."""
        rows = embedder_for(endpoint.url, key="secret").embed(["abc", " ", "z"])
        raw = np.array([[3, ord("a"), 1], [0, 0, 0], [1, ord("z"), 1]], dtype=np.float64)
        raw[[0, 2]] /= np.linalg.norm(raw[[0, 2]], axis=1, keepdims=True)
        assert rows == pytest.approx(raw, abs=1e-6)
        assert endpoint.asked == [{"model": "small", "input": ["abc", "z"]}]
        assert endpoint.keys == ["Bearer secret"]


class TestTrouble:
    @pytest.mark.parametrize(
        ("said", "why"),
        [
            (b"<html>", "not JSON"),
            ([], "no list"),
            ({}, "no list"),
            ({"data": 3}, "no list"),
            ({"data": [{"index": 0}]}, "no list"),
            ({"data": []}, "0 embeddings for 1"),
            ({"data": [{"index": 1, "embedding": [1.0]}]}, "1 embeddings for 1"),
            ({"data": [{"index": 0, "embedding": []}]}, "0 numbers"),
            ({"data": [{"index": 0, "embedding": "AAAA"}]}, "no vectors"),
            ({"data": [{"index": 0, "embedding": [None]}]}, "no vectors"),
            ({"data": [{"index": 0, "embedding": [float("nan")]}]}, "no vectors"),
            ({"data": [{"index": 0, "embedding": [{}]}]}, "no vectors"),
            ({"data": [{"index": 0, "embedding": [10**400]}]}, "no vectors"),
            ({"data": [{"index": float("inf"), "embedding": [1.0]}]}, "no list"),
        ],
    )
    def test_answers_that_are_none(self, endpoint: Endpoint, said: Any, why: str) -> None:
        """An answer that is not a list of vectors raises an error with the reason."""
        endpoint.answers = [says(200, said)]
        with pytest.raises(ModelError, match=why):
            HttpEmbedder(f"{endpoint.url}#m").embed(["abc"])

    def test_lengths_that_differ(self, endpoint: Endpoint) -> None:
        """Vectors of different lengths from one endpoint are an error."""
        long = {"data": [{"index": 0, "embedding": [1.0] * 5}]}
        endpoint.answers = [
            lambda body: (200, long) if len(body["input"]) == 1 else embeddings(body)
        ]
        with pytest.raises(ModelError, match="3 numbers were expected"):
            HttpEmbedder(f"{endpoint.url}#m").embed(["text"] * (BATCH + 1))

    @pytest.mark.parametrize(
        "url", ["http://", "http://h:port/v1", "http://me:secret@host/v1", "https://[::1/v1"]
    )
    def test_urls_that_are_none(self, url: str) -> None:
        """A URL without a host, or with a password that would be stored, is refused without a request."""
        with pytest.raises(UsageError, match="URL"):
            embedder_for(url)
