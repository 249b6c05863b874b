"""The reference of the commands."""

from __future__ import annotations

from tests import command_reference


def test_it_is_that_of_the_parser() -> None:
    """The page and the man page in the repository are what `python -m tests.command_reference` writes."""
    assert command_reference.PAGE.read_text(encoding="utf-8") == command_reference.page()
    assert command_reference.MANUAL.read_text(encoding="utf-8") == command_reference.manual()


def test_every_option_is_explained() -> None:
    """No option and no word of any command is without a line of help."""
    empty = [line for line in command_reference.page().splitlines() if line.endswith("|  |")]
    assert empty == []
