"""The declaration of a training request: parsing from text, and invalid values."""

from __future__ import annotations

import pytest

from engine.base.errors import UsageError
from engine.conversations.filters import Filter, parse_filter
from engine.training.config import TrainConfig
from engine.training.training_request import (
    OPTIONS,
    TEXT_FIELDS,
    TrainingRequest,
    read_request,
    read_settings,
    with_settings,
)


def test_every_field_is_read() -> None:
    """Each text becomes the value of its field."""
    texts = {
        "name": "mine", "recipe": "paper", "base": "b.gguf", "held_out": "0.25", "limit": "7",
        "seed": "3",
    }  # fmt: skip
    assert set(texts) == set(TEXT_FIELDS)
    assert read_request(texts, ["rank=4", "epochs=2"], parse_filter("turns>2")) == TrainingRequest(
        parse_filter("turns>2"), "mine", "paper", "b.gguf", 0.25, 7, 3,
        (("rank", "4"), ("epochs", "2")),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [("held_out", "half"), ("held_out", "1"), ("held_out", "nan"), ("limit", "0"), ("limit", "1.5"), ("seed", "x"),
     ("recipe", "poem")],
)  # fmt: skip
def test_what_cannot_be_names_the_field(name: str, text: str) -> None:
    """The error names the field, its text, and what it must be."""
    with pytest.raises(UsageError) as caught:
        read_request({name: text}, [], Filter())
    assert caught.value.message == (
        f"{name.replace('_', ' ')} is {text!r}; it must be {OPTIONS[name].must}."
    )


@pytest.mark.parametrize("word", ["rank", "rank=", "=4", ""])
def test_settings_have_a_name_and_a_value(word: str) -> None:
    """A word that is not FIELD=VALUE is refused."""
    with pytest.raises(UsageError, match="field=value"):
        read_settings([word])


def test_settings_are_read_by_their_type() -> None:
    """Numbers, switches and names are parsed by the type of their field."""
    settings = read_settings(["rank=32", "learning_rate=5e-4", "recompute=true", "precision=f32"])
    assert with_settings(TrainConfig("b.gguf"), settings) == TrainConfig(
        "b.gguf", rank=32, learning_rate=5e-4, recompute=True, precision="f32"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ranks", "3"), ("rank", "many"), ("rank", "0"), ("recompute", "perhaps"), ("epochs", "nan"),
        ("precision", "f8"), ("rows", "0"), ("base", "other.gguf"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_named(name: str, value: str) -> None:
    """An unknown field, or an invalid value, is an error that names it."""
    with pytest.raises(UsageError, match=name):
        with_settings(TrainConfig("b.gguf"), ((name, value),))
