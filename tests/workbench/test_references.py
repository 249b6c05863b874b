"""The pages of reference that are generated from the code."""

from __future__ import annotations

from tests import command_reference, prompt_reference, settings_reference


class TestCommands:
    def test_they_are_those_of_the_parser(self) -> None:
        """The page and the man page in the repository are what `python -m tests.command_reference` writes."""
        assert command_reference.PAGE.read_text(encoding="utf-8") == command_reference.page()
        assert command_reference.MANUAL.read_text(encoding="utf-8") == command_reference.manual()

    def test_every_option_is_explained(self) -> None:
        """No option and no word of any command is without a line of help."""
        empty = [line for line in command_reference.page().splitlines() if line.endswith("|  |")]
        assert empty == []


class TestSettings:
    def test_they_are_those_of_the_code(self) -> None:
        """The page in the repository is what `python -m tests.settings_reference` writes."""
        assert settings_reference.PAGE.read_text(encoding="utf-8") == settings_reference.page()

    def test_every_setting_of_a_project_is_explained(self) -> None:
        """No setting is read or written without a constant that says what it is."""
        assert settings_reference.unexplained() == set()


class TestPrompts:
    def test_they_are_those_of_the_files(self) -> None:
        """The page in the repository is what `python -m tests.prompt_reference` writes."""
        assert prompt_reference.PAGE.read_text(encoding="utf-8") == prompt_reference.page()

    def test_every_prompt_is_explained(self) -> None:
        """Each prompt says what it is for, and no purpose is left of one that went."""
        assert prompt_reference.unexplained() == []
