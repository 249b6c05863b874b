"""The pages of reference that are generated from the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import command_reference, json_reference, prompt_reference, settings_reference


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


class TestJson:
    def test_commands_print_what_the_page_says(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Commands that need no model print the names and kinds of the page, and all that are always there."""
        monkeypatch.chdir(tmp_path)
        page = json_reference.documented(json_reference.PAGE.read_text(encoding="utf-8"))
        found = json_reference.printed(json_reference.lines(json_reference.WITHOUT_MODEL))
        wrong = [
            f"{command}: {problem}"
            for command, results in found.items()
            for problem in json_reference.differences(results, page[command])
        ]
        assert wrong == []

    def test_every_command_is_on_the_page(self) -> None:
        """Each command has its section, or says where its result is described."""
        page = json_reference.documented(json_reference.PAGE.read_text(encoding="utf-8"))
        assert page.keys() | json_reference.ELSEWHERE.keys() == json_reference.commands()
