"""Prompt files, and the text that they put around a log."""

from __future__ import annotations

import pytest

from engine.base.errors import UsageError
from engine.model.prompt_files import Prompt, parse_prompt, prompt_names, prompt_text, tokens_around
from tests.engine.model.toy import START, ToyModel

WHOLE = """
chat = false
before = "b"
question = "q"
reply = "r"
end = "e"
continuation = "c"
stop = ["s"]
max_tokens = 3
"""


class TestFiles:
    @pytest.mark.parametrize("name", prompt_names())
    def test_every_shipped_prompt(self, name: str) -> None:
        """Every prompt of the program can be read."""
        prompt = parse_prompt(name, prompt_text(name))
        assert prompt.name == name

    def test_every_field_changes_the_parameters(self) -> None:
        """Every field of a prompt file is part of the config hash."""
        whole = parse_prompt("p", WHOLE).as_params()
        edits = [("false", "true"), *((f'"{x}"', '"other"') for x in "bqrecs"), ("= 3", "= 4")]
        for old, new in edits:
            assert parse_prompt("p", WHOLE.replace(old, new, 1)).as_params() != whole

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("chat = ", "not valid TOML"),
            (WHOLE.replace('reply = "r"\n', ""), "missing required field `reply`"),
            (WHOLE.replace("= 3", '= "3"'), r"Expected `int`, got `str` - at `\$.max_tokens`"),
            (WHOLE.replace('["s"]', "[1]"), r"\$\.stop"),
            (WHOLE + "chat_template = 1\n", "unknown fields: chat_template"),
        ],
    )
    def test_a_broken_file(self, text: str, said: str) -> None:
        """An edited prompt that cannot be used is refused with its name and the field."""
        with pytest.raises(UsageError, match=said) as error:
            parse_prompt("mine", text)
        assert "mine" in error.value.message


def prompt(chat: bool) -> Prompt:
    """A prompt with a text in every field."""
    return Prompt("p", chat, "before <|turn|>", " question", " reply", " yes", " no", (), 1)


class TestFrame:
    def test_a_log_cannot_close_the_frame(self) -> None:
        """A template is split at a mark that no transcript contains as a token, so a log cannot end its own message."""
        around = tokens_around(prompt(chat=True), ToyModel())
        text = bytes(token for token in [*around.head, *b"LOG", *around.tail] if token < START)
        assert text == b"user\nbefore LOG question\nassistant\n reply"
