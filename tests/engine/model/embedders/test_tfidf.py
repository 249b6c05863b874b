"""The TF-IDF embedder: which texts are near, which have no vector, and a stored state that may be hostile."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import ModelError
from engine.model.embedders import tfidf
from engine.model.embedders.tfidf import TfidfEmbedder
from engine.model.embedders.vectors import has_vector
from tests.engine.goals.groups import wishes
from tests.engine.project.support import REPOSITORY


def fitted(**more: int) -> TfidfEmbedder:
    """A TF-IDF embedder fitted on the texts of this module."""
    made = TfidfEmbedder(**more)
    made.fit(wishes()[0])
    return made


@cache
def state_of_wishes() -> bytes:
    """Of `fitted`."""
    return fitted().state()


class TestMeaning:
    @pytest.mark.parametrize(
        "text", ["", "  \n", "zyxwv qqqq", "12345 7", "the of and", "\x00\ud800"]
    )
    def test_nothing_to_go_by(self, text: str) -> None:
        """A text that is empty, of unknown words, of numbers or of stop words has a row of zeros."""
        rows = fitted().embed(["refund the kettle", text])
        assert has_vector(rows).tolist() == [True, False]

    def test_scripts_without_spaces(self) -> None:
        """In scripts without spaces single characters and pairs of them are the terms."""
        texts = ["我想退款", "请给我退款", "明天天气怎么样", "后天天气如何"]
        made = TfidfEmbedder()
        made.fit(texts)
        cosines = made.embed(texts) @ made.embed(texts).T
        assert cosines[0, 1] > cosines[0, 2] + 0.1
        assert cosines[2, 3] > cosines[1, 3] + 0.1


class TestRepetition:
    def test_same_seed_same_bits(self) -> None:
        """Fitting the same texts in another process gives the same fingerprint and vectors."""
        code = (
            "from engine.model.embedders.tfidf import TfidfEmbedder\n"
            "from tests.engine.goals.groups import wishes\n"
            "made = TfidfEmbedder()\n"
            "made.fit(wishes()[0])\n"
            "print(made.fingerprint, made.embed(wishes()[0]).tobytes().hex())"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        made = fitted()
        assert done.stdout.split() == [made.fingerprint, made.embed(wishes()[0]).tobytes().hex()]

    def test_many_texts_are_sampled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Above the limit the embedder is fitted on a random sample, the same for the same seed, and embeds all
        texts.
        """
        monkeypatch.setattr(tfidf, "MAX_FIT_TEXTS", 20)
        texts = wishes()[0]
        some = fitted()
        assert some.fingerprint == fitted().fingerprint != fitted(seed=1).fingerprint
        assert 0.5 < has_vector(some.embed(texts)).mean() <= 1
        # Not simply the first twenty, which are all of one kind.
        assert has_vector(some.embed(["what will the weather be"])).all()


class TestState:
    @settings(max_examples=150, deadline=None)
    @given(st.data())
    def test_damaged(self, data: st.DataObject) -> None:
        """A state that is cut short, longer or changed is refused or gives a valid embedder, without a crash."""
        state = bytearray(state_of_wishes())
        for _ in range(data.draw(st.integers(1, 4))):
            state[data.draw(st.integers(0, len(state) - 1))] = data.draw(st.integers(0, 255))
        end = data.draw(st.integers(0, len(state) + 8))
        hurt = bytes(state[:end]) + bytes(max(0, end - len(state)))
        try:
            made = TfidfEmbedder.from_state(hurt)
        except ModelError:
            return
        rows = made.embed(["book a flight to Oslo", ""])
        assert np.isfinite(rows).all()

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"words": []}, r"\$\.words"),
            ({"words": ["a", "a"]}, "impossible"),
            ({"words": [1, 2]}, r"\$\.words"),
            ({"rank": 2**40}, r"\$\.rank"),
            ({"rank": 0}, r"\$\.rank"),
            ({"rank": 200}, "impossible"),
            ({"dimensions": -1}, r"\$\.dimensions"),
            ({"rank": 1}, "length"),
        ],
    )
    def test_hostile_heads(self, change: dict[str, object], why: str) -> None:
        """A header with impossible values is refused before memory of its size is allocated."""
        head = {"words": ["a", "b"], "rank": 2, "dimensions": 128, "seed": 0} | change
        text = json.dumps(head).encode()
        state = b"WTFIDF1\n" + struct.pack("<I", len(text)) + text + bytes(4 * 2 * 3)
        with pytest.raises(ModelError, match=why):
            TfidfEmbedder.from_state(state)
