"""Embeddings from an OpenAI-compatible endpoint that the user named."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import numpy.typing as npt

from engine.base.errors import EndpointError, ModelError
from engine.model.embedders.batches import BATCH, embed_in_batches
from engine.model.embedders.vectors import Vectors
from engine.model.http.address import parse_address
from engine.model.http.client import EndpointClient, Sleep
from engine.model.http.served_models import with_model


class HttpEmbedder:
    """Requests `POST …/embeddings`; retries when the server is busy or cannot be reached for a moment.

    Args:
        url: `http://host:8080/v1`, with `#model` if the endpoint serves several; a path that ends in `/embeddings` is
            used as it is.
        key: Sent as bearer token; never part of the fingerprint.
        sleep: Waits for a number of seconds.

    Raises:
        UsageError: The URL is not valid.
    """

    kind = "http"
    fitted = True

    def __init__(self, url: str, *, key: str = "", sleep: Sleep = asyncio.sleep) -> None:
        address = parse_address(url, leaf="embeddings")
        self._base, self._model = address.base, address.model
        self._client = EndpointClient(address, key, sleep=sleep)

    @property
    def recipe(self) -> str:
        return self.fingerprint

    @property
    def fingerprint(self) -> str:
        """The address and the name of the model; the weights behind them are not known."""
        return f"http:{self._base}#{self._named_model()}"

    def fit(self, texts: Iterable[str]) -> None:
        """Does nothing: the model is not fitted."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text, zeros for a blank one.

        Raises:
            ModelError: The endpoint cannot be reached, refuses the request, or its answer is not a list of embeddings.
        """
        return embed_in_batches(texts, self._ask, BATCH)

    def state(self) -> bytes | None:
        """None: the URL is enough."""
        return None

    def _ask(self, texts: Sequence[str]) -> npt.ArrayLike:
        answer = self._client.once(
            "embeddings", {"model": self._named_model(), "input": list(texts)}
        )
        try:
            items = sorted(answer["data"], key=lambda item: int(item["index"]))
            found = [item["embedding"] for item in items]
            complete = [item["index"] for item in items] == list(range(len(texts)))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._unexpected("no list of embeddings") from error
        if not complete:
            raise self._unexpected(f"{len(found)} embeddings for {len(texts)} texts")
        return found

    def _named_model(self) -> str:
        if not self._model:
            self._model = with_model(self._client).model
        return self._model

    def _unexpected(self, what: str) -> ModelError:
        return EndpointError(
            f"{self._base} answered {what}.", "It has to speak OpenAI's /v1/embeddings."
        )
