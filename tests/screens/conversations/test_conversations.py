"""The list of conversations, used as a person would use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.widgets import Input

from engine.base.conversation import State
from engine.base.errors import WorkbenchError
from engine.completeness.tables import score_sets
from engine.project import settings
from screens.reader import ReaderScreen
from screens.shell.dialogs import ErrorDialog
from screens.shell.importing import ImportDialog
from screens.widgets.row_table import MARK
from tests.screens.conversations.listing import filtered, table
from tests.screens.driving import lines, opened, press, text, until
from tests.screens.project import project, project_of
from tests.screens.samples import conversation
from tests.screens.stand_ins import raising


def names_in(path: str) -> list[str]:
    """The names of the conversations in a file of JSON Lines."""
    return [json.loads(line)["id"] for line in Path(path).read_text("utf-8").splitlines()]


class TestCounts:
    async def test_no_scores_says_what_to_do(self) -> None:
        """Without any score the counts line names the key that scores, and shows no rate."""
        fresh = project_of([conversation(number, None) for number in range(1, 4)])
        fresh.file.write(lambda conn: settings.put(conn, score_sets.IN_FORCE_SETTING, None))
        async with opened(fresh) as pilot:
            assert "no scores yet, r scores them" in lines(pilot)[1]
            assert "%" not in lines(pilot)[1]


class TestFilterAndSort:
    async def test_scoring_offers_what_is_listed(self) -> None:
        """From a filtered list only what is listed is scored; without the filter all are, and the estimate follows."""
        support = project()
        async with opened(support) as pilot:
            await filtered(pilot, "state:broken-off")
            await press(pilot, "r")
            await until(pilot, lambda: "13 conversations" in text(pilot))
            await press(pilot, "enter", "r", "down", "backspace")
            await until(pilot, lambda: "812 conversations" in text(pilot))
            await press(pilot, "enter")

        assert support.jobs.started == [("base", "state:broken-off"), "base"]

    async def test_sort_by_dialog_and_reverse(self) -> None:
        """The sort dialog orders the list, `S` turns it round, and what has no score stays last."""
        support = project()
        async with opened(support) as pilot:
            await press(pilot, "s", "down", "down", "down", "down", "enter")
            first = support.row(table(pilot).ids[0])
            last = support.row(table(pilot).ids[-1])

            assert first.p_end_normalised == pytest.approx(0.02)
            assert last.state is State.UNSCORED
            assert "score ▴" in text(pilot)

            await press(pilot, "S")

            assert support.row(table(pilot).ids[0]).p_end_normalised == pytest.approx(0.99)
            assert "score ▾" in text(pilot)

    async def test_columns(self) -> None:
        """Columns are ticked on and off, are remembered, and come back when the project is opened again."""
        support = project()
        async with opened(support) as pilot:
            await press(pilot, "C", "space", *["down"] * 6, "space", "enter")
            assert lines(pilot)[2].split()[:2] == ["score", "turns"]
            assert "messages" in lines(pilot)[2]

        async with opened(support) as pilot:
            assert "messages" in lines(pilot)[2]
            assert support.saved.columns() is not None
            assert "No room for" not in text(pilot)
        async with opened(support, (80, 24)) as pilot:
            await press(pilot, "C", *["down", "down", "down", "space", "down", "space"], "enter")
            assert "No room for" in text(pilot)


class TestMarks:
    async def test_mark_and_range(self) -> None:
        """Space marks and goes on, `v` marks from there to the cursor, `A` takes all marks away. Reading on to another
        conversation moves the cursor of the list there."""
        async with opened(project()) as pilot:
            await press(pilot, "space", "down", "down", "v")
            assert "4 marked · 36 of 36" in lines(pilot)[1]
            assert [line[0] for line in lines(pilot)[3:8]] == [MARK] * 4 + [" "]
            await press(pilot, "A")
            assert "marked" not in lines(pilot)[1]

            await press(pilot, "home", "enter")
            assert isinstance(pilot.app.screen, ReaderScreen)
            await press(pilot, "n", "n", "q")
            assert table(pilot).cursor_id == 3

    async def test_export(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """`X` writes what is listed, or what is marked, to a file that is not there yet."""
        monkeypatch.chdir(tmp_path)
        support = project()
        async with opened(support) as pilot:
            await filtered(pilot, "state:broken-off")
            await press(pilot, "X", "enter", "enter")
            listed = [row.external_id for row in support.conversations.rows(table(pilot).ids)]
            assert names_in("conversations.jsonl") == listed
            assert "Wrote 12 lines to conversations.jsonl." in text(pilot)

            await press(pilot, "space", "X", "down", "enter", "enter")
            assert names_in("scores.jsonl") == listed[:1]

            await press(pilot, "X", "enter", "enter")
            assert isinstance(pilot.app.screen, ErrorDialog)
            assert "conversations.jsonl is there already." in text(pilot)

    async def test_tag(self) -> None:
        """`t` tells what tags are for, then which there are, and tags all that are marked; a minus untags them."""
        support = project()
        async with opened(support) as pilot:
            await press(pilot, "space", "space", "t")
            assert "No tags yet. A tag is a word of yours" in text(pilot)
            await press(pilot, *"angry", "enter")
            assert "Tagged 2 conversations: angry." in text(pilot)
            await press(pilot, "t")
            assert "Tags in use: angry 2" in text(pilot)
            await press(pilot, *"-angry", "enter")

            assert [(row.question, row.value, row.conversations) for row in support.acts()] == [
                ("angry", "yes", 2),
                ("angry", None, 2),
            ]


class TestPreview:
    async def test_preview_on_a_wide_terminal(self) -> None:
        """On a wide terminal the evidence and the end of the conversation under the cursor stand beside it."""
        async with opened(project(), size=(200, 60)) as pilot:
            await press(pilot, "down")

            assert "· confirm the change of the files" in text(pilot)
            assert "user 6  Yes, the files" in text(pilot)


class TestErrors:
    async def test_error_dialog(self) -> None:
        """An error shows what happened and what to do, and leaves on enter with the list as it was."""
        support = project()
        async with opened(support) as pilot:
            error = WorkbenchError("The disk is full.", "Free 20 MB and try again.")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(support.conversations, "ids", raising(error))
                await press(pilot, "S")

            assert isinstance(pilot.app.screen, ErrorDialog)
            assert "The disk is full." in text(pilot)
            assert "Free 20 MB and try again." in text(pilot)

            await press(pilot, "enter")

            assert len(table(pilot).ids) == 36


class TestImport:
    async def test_import_dialog(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """`i` asks for a path, and starts an import of it."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "october.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}')
        support = project()
        async with opened(support) as pilot:
            await press(pilot, "i")
            assert isinstance(pilot.app.screen, ImportDialog)
            await press(pilot, *"october", "full_stop", *"jsonl", "enter")
            await until(pilot, lambda: support.jobs.started == [["october.jsonl"]])

    async def test_mistake_keeps_the_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What cannot be imported is refused in the dialog, with the reason; what was typed stays."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "a.csv").write_text("id,text\n1,hello\n")
        support = project()
        async with opened(support) as pilot:
            await press(pilot, "i")
            field = pilot.app.screen.query_one(Input)
            for name, problem in (
                ("typo.jsonl", "There is no file or folder typo.jsonl"),
                ("a.csv", "`text`"),
            ):
                field.value = ""
                await press(pilot, *name, "enter")
                await until(pilot, lambda problem=problem: problem in text(pilot))  # type: ignore[misc]
                assert isinstance(pilot.app.screen, ImportDialog), name
                assert field.value == name
            assert support.jobs.started == []
