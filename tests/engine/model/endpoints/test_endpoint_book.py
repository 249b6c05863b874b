"""The endpoint list: what is stored of each endpoint, and that no key is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.model.endpoints.endpoint_book import EndpointBook
from engine.model.endpoints.sender import Prices
from tests.engine.model.endpoints.toy_peer import MODEL, running


class TestAdding:
    def test_kept(self, tmp_path: Path) -> None:
        """An endpoint is found again with its settings and probe results, by default under the model's name."""
        with running("vllm") as peer:
            book = EndpointBook(tmp_path)
            added = book.add(peer.base, prices=Prices(1, 2), timeout=90.0)
        assert (added.name, added.url, added.prices) == (MODEL, peer.url, Prices(1, 2))
        assert added.timeout == 90.0
        assert EndpointBook(tmp_path).entries() == [added]

    def test_the_key_is_asked_for_and_not_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The key is sent with every request and is in no file; only the name of its environment variable is."""
        monkeypatch.setenv("TOY_KEY", "canary-456")
        with running("vllm") as peer:
            EndpointBook(tmp_path).add(peer.url, "toy", key_env="TOY_KEY")
            assert set(peer.keys) == {"Bearer canary-456"}
        assert "TOY_KEY" in (tmp_path / "endpoints.json").read_text()
        assert all(b"canary" not in path.read_bytes() for path in tmp_path.rglob("*"))

    def test_names(self, tmp_path: Path) -> None:
        """A name stands for one URL; adding the same endpoint again probes it anew."""
        with running("vllm") as first, running("bare") as second:
            book = EndpointBook(tmp_path)
            book.add(first.url, "one")
            book.add(first.url, "one")
            with pytest.raises(UsageError, match="taken"):
                book.add(second.url, "one")
        book.forget("one")
        assert EndpointBook(tmp_path).entries() == []
