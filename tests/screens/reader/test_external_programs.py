"""A conversation in another program: which one, what it gets, and what is left behind."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from engine.base.conversation import ToolCall
from engine.base.errors import WorkbenchError
from engine.conversations.records import MessageRow
from screens.reader import exporting


def row(index: int, role: str, content: str, *calls: ToolCall, hidden: bool = False) -> MessageRow:
    """A message with nothing special."""
    return MessageRow(role, content, tool_calls=calls, hidden=hidden, index=index, turn=1)  # type: ignore[arg-type]


def program(folder: Path, name: str, script: str) -> Path:
    """An executable shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return path


class TestText:
    def test_log_as_imported(self) -> None:
        """The log has every message as imported, calls included, also what is kept from the model."""
        messages = [
            row(0, "user", "Exchange it ###STOP###", hidden=True),
            row(1, "assistant", "", ToolCall("get", '{"id": 7}')),
        ]

        assert exporting.log_text(messages) == (
            "TURN 1, STEP 1, user chat:\nExchange it ###STOP###\n\n"
            'TURN 1, STEP 2, assistant action:\nTOOL CALLS: [{"name": "get", "args": {"id": 7}}]'
        )

    def test_lone_surrogates(self) -> None:
        """Half a character is replaced: no clipboard and no file takes it."""
        assert exporting.message_text(row(0, "user", "a\ud800b")) == "a\ufffdb"


class TestCommand:
    def test_words_of_the_variable(self, tmp_path: Path) -> None:
        """`$PAGER` may have arguments; `$VISUAL` goes before `$EDITOR`."""
        program(tmp_path, "mypager", "")
        program(tmp_path, "one", "")
        program(tmp_path, "two", "")
        path = {"PATH": str(tmp_path)}

        assert exporting.find_command("pager", {**path, "PAGER": "mypager -S 'a b'"}) == [
            "mypager",
            "-S",
            "a b",
        ]
        assert exporting.find_command("editor", {**path, "VISUAL": "one", "EDITOR": "two"}) == [
            "one"
        ]
        assert exporting.find_command("editor", {**path, "VISUAL": " ", "EDITOR": "two"}) == ["two"]

    def test_usual_programs(self, tmp_path: Path) -> None:
        """Without a variable the first usual program that is installed is taken."""
        more = program(tmp_path, "more", "")
        assert exporting.find_command("pager", {"PATH": str(tmp_path)}) == [str(more)]
        less = program(tmp_path, "less", "")
        assert exporting.find_command("pager", {"PATH": str(tmp_path)}) == [str(less)]

    @pytest.mark.parametrize("named", ["not-installed -x", "'unclosed"])
    def test_what_cannot_be_run(self, tmp_path: Path, named: str) -> None:
        """A variable that names nothing that runs is an error that names the variable."""
        with pytest.raises(WorkbenchError, match=r"\$PAGER names"):
            exporting.find_command("pager", {"PATH": str(tmp_path), "PAGER": named})

    def test_nothing_there(self, tmp_path: Path) -> None:
        """Where no pager is installed the error says which were looked for."""
        with pytest.raises(WorkbenchError, match="neither less, more is installed"):
            exporting.find_command("pager", {"PATH": str(tmp_path)})


class TestShow:
    def test_safe_read_only_and_gone(self, tmp_path: Path) -> None:
        """The program gets the text made safe, lines kept, in a file only its owner reads; afterwards it is gone."""
        seen, place = tmp_path / "seen", tmp_path / "place"
        pager = program(tmp_path, "pager", f'cp -p "$1" {seen}; printf %s "$1" > {place}')

        exporting.show([str(pager)], "one\x1b]52;c;x\x07\n\ttwo \u202e")

        assert seen.read_text() == "one␛]52;c;x␇\n\ttwo \ufffd\n"
        assert stat.S_IMODE(seen.stat().st_mode) == 0o400
        assert not Path(place.read_text()).exists()
        assert not Path(place.read_text()).parent.exists()

    def test_failure(self, tmp_path: Path) -> None:
        """A program that fails is told by its exit code, and its file is gone all the same."""
        place = tmp_path / "place"
        pager = program(tmp_path, "pager", f'printf %s "$1" > {place}; exit 3')

        with pytest.raises(WorkbenchError, match="ended with exit code 3"):
            exporting.show([str(pager)], "text")
        assert not Path(place.read_text()).exists()
