"""Preferences of all projects, and the commands that use them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.base import folders
from tests.command_line import result
from workbench import cli
from workbench.launcher import Preferences, PreferenceValues, load_shell

NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)


@pytest.fixture
def preferences(tmp_path: Path) -> Preferences:
    """Preferences in a folder that does not exist yet."""
    return Preferences(tmp_path / "config" / "preferences.json")


@pytest.fixture(autouse=True)
def config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config folder of the test's own."""
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "own"))
    return tmp_path / "own"


class TestFile:
    def test_theme_and_projects_come_back(self, preferences: Preferences, tmp_path: Path) -> None:
        """Stored preferences are read by the next program."""
        preferences.choose_theme("light")
        preferences.opened(tmp_path / "a.wb", NOON)
        preferences.opened(tmp_path / "b.wb", NOON)
        preferences.opened(tmp_path / "a.wb", NOON)
        chosen, problem = Preferences(preferences.path).read()
        assert problem is None
        assert chosen.theme == "light"
        assert [Path(entry.path).name for entry in chosen.recent] == ["a.wb", "b.wb"]

    @pytest.mark.parametrize("content", [b"{", b'{"recent": [{}]}'])
    def test_broken_file(self, content: bytes, preferences: Preferences) -> None:
        """An invalid file is reported, and moved aside when preferences are stored."""
        preferences.path.parent.mkdir()
        preferences.path.write_bytes(content)
        chosen, problem = preferences.read()
        assert chosen == PreferenceValues()
        assert problem is not None
        assert str(preferences.path) in problem

        preferences.choose_theme("ansi")
        assert preferences.read() == (PreferenceValues(theme="ansi"), None)
        assert preferences.path.with_suffix(".broken").read_bytes() == content


class TestShell:
    def test_theme_of_the_command_line_wins(self) -> None:
        """`--theme` overrides the stored theme, and an unknown stored one is replaced by the default."""
        preferences = Preferences(folders.preferences_file())
        preferences.choose_theme("light")
        assert load_shell().theme == "light"
        assert load_shell("ansi").theme == "ansi"
        preferences.choose_theme("purple")
        assert load_shell().theme == "dark"

    def test_keymap_in_force(self, config_folder: Path) -> None:
        """keymap.toml in the config folder is read, and its errors are shown at the start."""
        config_folder.mkdir()
        folders.keymap_file().write_text('[keys]\n"app.help" = "f1"\n"app.x" = "f2"\n', "utf-8")
        shell = load_shell()
        assert dict(shell.keymap) == {"app.help": "f1"}
        assert "keymap.toml, line 3" in shell.problems[0]


class TestCommands:
    def test_keys(self, config_folder: Path) -> None:
        """`workbench keys --json` lists every action with the keys in force."""
        config_folder.mkdir()
        folders.keymap_file().write_text('[keys]\n"app.help" = "f1"\n', "utf-8")
        found = {entry["id"]: entry for entry in result("keys")["keys"]}
        assert found["app.help"]["keys"] == ["f1"]
        assert found["app.help"]["changed"]

    def test_keys_with_a_mistake(
        self, config_folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """An error in the file is printed on standard error, and the exit code says so."""
        config_folder.mkdir()
        folders.keymap_file().write_text("[keys", "utf-8")
        assert cli.main(["keys"]) == 1
        out, err = capsys.readouterr()
        assert "app.help" in out
        assert "keymap.toml" in err
