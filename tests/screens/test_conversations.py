"""The list of conversations, used as a person would use it."""

from __future__ import annotations

from textual.pilot import Pilot

from engine.errors import WorkbenchError
from engine.events import DataChanged
from engine.rows import ConversationRow, State
from screens.conversations import ConversationsScreen
from screens.dialogs import ErrorDialog, TextDialog
from screens.reader import ReaderScreen
from screens.widgets.row_table import RowTable
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.fakes import FakeProject, conversation, project


def table(pilot: Pilot[None]) -> RowTable[ConversationRow]:
    """The table of the list."""
    screen = pilot.app.screen
    assert isinstance(screen, ConversationsScreen)
    return screen.query_one("#list", RowTable)


class TestCounts:
    async def test_rate_and_coverage(self) -> None:
        """The counts line says how many are shown, the rate with its error, and the coverage."""
        async with opened(project()) as pilot:
            assert "36 of 36 · 45% ± 16 complete (92% scored)" in lines(pilot)[1]
            assert "● 15" in lines(pilot)[1]
            assert "· 3" in lines(pilot)[1]

    async def test_no_scores_says_what_to_do(self) -> None:
        """Without any score the counts line names the key that scores, and shows no rate."""
        fresh = FakeProject([conversation(number, None) for number in range(1, 4)])
        async with opened(fresh) as pilot:
            assert "no scores yet, r scores them" in lines(pilot)[1]
            assert "%" not in lines(pilot)[1]

    async def test_empty_project_says_what_to_do(self) -> None:
        """An empty project names the key that imports."""
        async with opened(FakeProject([])) as pilot:
            assert "No conversations yet." in text(pilot)
            assert "i imports a file or a folder" in text(pilot)


class TestSearch:
    async def test_search_and_clear(self) -> None:
        """Slash, words and enter leave what holds all of them; escape brings everything back."""
        async with opened(project()) as pilot:
            await press(pilot, "slash", *"boston", "enter")

            assert lines(pilot)[1].split()[:3] == ["6", "of", "36"]
            assert len(table(pilot).ids) == 6
            assert "with “boston”" in text(pilot)
            assert pilot.app.focused is table(pilot)

            await press(pilot, "escape")

            assert len(table(pilot).ids) == 36

    async def test_search_while_typing(self) -> None:
        """The list follows the typing without enter."""
        async with opened(project()) as pilot:
            await pilot.press("slash", *"boston")
            await until(pilot, lambda: len(table(pilot).ids) == 6)

    async def test_nothing_found_says_how_to_go_back(self) -> None:
        """A search that finds nothing says so, and how to clear it."""
        async with opened(project()) as pilot:
            await press(pilot, "slash", *"zebra", "enter")

            assert "None of 36 conversations matches" in text(pilot)
            assert "escape clears" in text(pilot)

            await press(pilot, "escape")

            assert len(table(pilot).ids) == 36

    async def test_refused_search_is_told_in_place(self) -> None:
        """A search text that is refused is told above the list, not in a dialog over the typing."""
        fake = project()
        async with opened(fake) as pilot:
            await press(pilot, "slash", *"lamp")
            await until(pilot, lambda: len(table(pilot).ids) == 6)
            fake.fail_next = WorkbenchError("The search has too many words.", "Use fewer.")
            await press(pilot, "s", "enter")

            assert "The search has too many words. Use fewer." in lines(pilot)[1]


class TestFilterAndSort:
    async def test_state_filter_cycles(self) -> None:
        """`f` shows incomplete, borderline, unscored, complete and then everything again."""
        async with opened(project()) as pilot:
            shown = []
            for _ in range(5):
                await press(pilot, "f")
                shown.append(len(table(pilot).ids))

            assert shown == [12, 6, 3, 15, 36]

    async def test_sort_by_dialog_and_reverse(self) -> None:
        """The sort dialog orders the list, `S` turns it round, and what has no score stays last."""
        fake = project()
        async with opened(fake) as pilot:
            await press(pilot, "s", "down", "down", "down", "enter")
            first = fake.items[table(pilot).ids[0]].row
            last = fake.items[table(pilot).ids[-1]].row

            assert first.p_end_normalised == 0.02
            assert last.state is State.UNSCORED
            assert "p end ▴" in text(pilot)

            await press(pilot, "S")

            assert fake.items[table(pilot).ids[0]].row.p_end_normalised == 0.99
            assert "p end ▾" in text(pilot)

    async def test_header_click_sorts(self) -> None:
        """A click on a column's title sorts by that column."""
        async with opened(project()) as pilot:
            await pilot.click(RowTable, offset=(lines(pilot)[2].index("turns"), 0))
            await settle(pilot)

            assert "turns ▾" in text(pilot)

    async def test_filter_dialog(self) -> None:
        """`F` leaves what a person has not judged."""
        fake = project()
        async with opened(fake) as pilot:
            await press(pilot, "3", "c", "2", "F", "down", "enter")

            assert len(table(pilot).ids) == 35
            assert "not judged by you" in text(pilot)


class TestCursor:
    async def test_cursor_stays_on_its_conversation(self) -> None:
        """New conversations above the cursor do not move it to another conversation."""
        fake = project()
        async with opened(fake) as pilot:
            await press(pilot, "down", "down", "down")
            before = table(pilot).cursor_id
            fake.items = {0: conversation(0, 0.9), **fake.items}
            fake.emit(DataChanged(frozenset({"conversation"})))
            await until(pilot, lambda: len(table(pilot).ids) == 37)

            assert table(pilot).cursor_id == before
            assert table(pilot).cursor_index == 4

    async def test_back_from_reader(self) -> None:
        """Reading on to another conversation moves the cursor of the list there."""
        async with opened(project()) as pilot:
            await press(pilot, "enter")
            assert isinstance(pilot.app.screen, ReaderScreen)
            await press(pilot, "n", "n", "q")

            assert table(pilot).cursor_id == 3

    async def test_preview_on_a_wide_terminal(self) -> None:
        """On a wide terminal the evidence and the end of the conversation under the cursor stand beside it."""
        async with opened(project(), size=(200, 60)) as pilot:
            await press(pilot, "down")

            assert "Remaining tasks" in text(pilot)
            assert "· confirm the change of the files" in text(pilot)
            assert "user 6  Yes, the files" in text(pilot)


class TestErrors:
    async def test_error_dialog(self) -> None:
        """An error shows what happened and what to do, and leaves on enter with the list as it was."""
        fake = project()
        async with opened(fake) as pilot:
            fake.fail_next = WorkbenchError("The disk is full.", "Free 20 MB and try again.")
            await press(pilot, "f")

            assert isinstance(pilot.app.screen, ErrorDialog)
            assert "The disk is full." in text(pilot)
            assert "Free 20 MB and try again." in text(pilot)

            await press(pilot, "enter")

            assert len(table(pilot).ids) == 36

    async def test_unforeseen_error_is_shown(self) -> None:
        """A fault nobody foresaw is shown too and does not end the app."""
        fake = project()
        async with opened(fake) as pilot:
            del fake.items[36].row
            await press(pilot, "f")

            assert isinstance(pilot.app.screen, ErrorDialog)
            assert "AttributeError" in text(pilot)


class TestReadOnly:
    async def test_read_only_project(self) -> None:
        """A read-only project says so in the title line and refuses import and scoring with the reason."""
        fake = project()
        fake.read_only = "another workbench is writing it"
        async with opened(fake) as pilot:
            assert "read-only" in lines(pilot)[0]

            await press(pilot, "r", "i")

            assert isinstance(pilot.app.screen, ConversationsScreen)
            assert "another workbench is writing it" in text(pilot)
            assert fake.started == []


class TestImport:
    async def test_import_dialog(self) -> None:
        """`i` asks for a path and starts an import of it."""
        fake = project()
        async with opened(fake) as pilot:
            await press(pilot, "i")
            assert isinstance(pilot.app.screen, TextDialog)
            await press(pilot, *"a.jsonl", "enter")

            assert fake.started == [["a.jsonl"]]

    async def test_import_left(self) -> None:
        """Escape leaves the dialog and starts nothing."""
        fake = project()
        async with opened(fake) as pilot:
            await press(pilot, "i", *"a.jsonl", "escape")

            assert fake.started == []
            assert isinstance(pilot.app.screen, ConversationsScreen)
