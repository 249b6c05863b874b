"""Triage as a session: verdicts, auto-advance, undo, notes, and nothing that moves under the hands."""

from __future__ import annotations

from engine.errors import ProjectError
from engine.events import DataChanged
from engine.rows import TriageItem, TriagePage, Verdict
from screens.dialogs import ErrorDialog
from screens.reader import ReaderScreen
from screens.triage_queue import Pace, TriageQueue
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.fakes import FakeProject, conversation, project


class TestVerdicts:
    async def test_each_key_gives_its_verdict_and_goes_on(self) -> None:
        """`c`, `i` and `m` record complete, incomplete and unsure for what was shown, and show the next."""
        fake = project()
        queue = [item.conversation_id for item in fake.queue().items]
        async with opened(fake) as pilot:
            await press(pilot, "3")
            assert "support/0002" in lines(pilot)[1]
            assert "1 of 21" in lines(pilot)[0]

            await press(pilot, "c", "i", "m")

            assert [(row.conversation_id, row.verdict) for row in fake.given] == [
                (queue[0], Verdict.COMPLETE),
                (queue[1], Verdict.INCOMPLETE),
                (queue[2], Verdict.UNSURE),
            ]
            assert f"support/{queue[3]:04d}" in lines(pilot)[1]
            assert "4 of 21" in lines(pilot)[0]
            assert "● 1  ○ 1  ◐ 1" in lines(pilot)[0]

    async def test_fast_keys_are_written_in_order(self) -> None:
        """Verdicts given faster than they are written all arrive, in the order given."""
        fake = project()
        queue = [item.conversation_id for item in fake.queue().items]
        async with opened(fake) as pilot:
            await press(pilot, "3")
            await pilot.press(*"cicicici")
            await settle(pilot)

            assert [row.conversation_id for row in fake.given] == queue[:8]
            assert [row.verdict for row in fake.given] == [Verdict.COMPLETE, Verdict.INCOMPLETE] * 4

    async def test_undo_and_redo(self) -> None:
        """`u` takes the newest verdict back and shows its conversation; `U` gives it again and goes on."""
        fake = project()
        async with opened(fake) as pilot:
            await press(pilot, "3", "c", "c", "u")

            assert len(fake.given) == 1
            assert "support/0014" in lines(pilot)[1]
            assert "no verdict yet" in text(pilot)

            await press(pilot, "U")

            assert len(fake.given) == 2
            assert "support/0026" in lines(pilot)[1]

    async def test_undo_of_nothing_says_so(self) -> None:
        """Undo without a verdict says there is nothing to undo."""
        async with opened(project()) as pilot:
            await press(pilot, "3", "u")

            assert "There is nothing to undo." in text(pilot)

    async def test_skip_comes_again(self) -> None:
        """What was skipped comes again when all others have a verdict."""
        fake = FakeProject([conversation(number, 0.5) for number in range(1, 4)])
        async with opened(fake) as pilot:
            await press(pilot, "3", "s", "c", "c")
            assert "support/0001" in lines(pilot)[1]

            await press(pilot, "c")
            assert "Nothing is left in the queue. 3 verdicts given." in text(pilot)

    async def test_note(self) -> None:
        """`n` keeps a note with the conversation that is shown, and the note is shown at once."""
        fake = project()
        async with opened(fake) as pilot:
            await press(pilot, "3", "n", *"odd", "enter")

            assert fake.given[-1].note == "odd"
            assert "odd" in text(pilot)
            assert "support/0002" in lines(pilot)[1]

    async def test_failed_write_brings_the_item_back(self) -> None:
        """A verdict that could not be written is told, and its conversation is in front again."""
        fake = project()
        async with opened(fake) as pilot:
            await press(pilot, "3")
            fake.fail_next = ProjectError("The disk is full.", "Free some space.")
            await press(pilot, "c")
            assert isinstance(pilot.app.screen, ErrorDialog)

            await press(pilot, "enter")
            assert "support/0002" in lines(pilot)[1]
            assert fake.given == []

    async def test_read_only(self) -> None:
        """In a read-only project a verdict key says why it does nothing."""
        fake = project()
        fake.read_only = "another workbench is writing it"
        async with opened(fake) as pilot:
            await press(pilot, "3", "c")

            assert fake.given == []
            assert "another workbench is writing it" in text(pilot)
            assert "support/0002" in lines(pilot)[1]


class TestPlace:
    async def test_place_is_kept_across_modes(self) -> None:
        """Going to the list and back shows the same conversation."""
        async with opened(project()) as pilot:
            await press(pilot, "3", "s", "s")
            before = lines(pilot)[1]
            await press(pilot, "2", "down", "3")

            assert lines(pilot)[1] == before

    async def test_new_scores_do_not_move_what_is_shown(self) -> None:
        """When the queue changes, the item in front stays and what is to come is exchanged."""
        fake = project()
        async with opened(fake) as pilot:
            await press(pilot, "3", "s")
            before = lines(pilot)[1]
            fake.items[99] = conversation(99, 0.5)
            fake.emit(DataChanged(frozenset({"score"})))
            await until(pilot, lambda: "2 of 22" in lines(pilot)[0])

            assert lines(pilot)[1] == before
            await press(pilot, "s")
            assert "support/0099" in lines(pilot)[1]

    async def test_open_in_reader(self) -> None:
        """`o` opens the item in the reader, and back is the same item."""
        async with opened(project()) as pilot:
            await press(pilot, "3", "s", "o")
            assert isinstance(pilot.app.screen, ReaderScreen)
            assert "support/0014" in lines(pilot)[1]

            await press(pilot, "q")
            assert "support/0014" in lines(pilot)[1]

    async def test_nothing_scored_says_what_to_do(self) -> None:
        """Without scores triage names the way to them."""
        async with opened(FakeProject([])) as pilot:
            await press(pilot, "3")

            assert "no conversation has been scored" in text(pilot)

    async def test_pace(self) -> None:
        """The title line says how many items an hour, from the clock."""
        now = [0.0]
        async with opened(project(), clock=lambda: now[0], mode="3") as pilot:
            for _ in range(3):
                now[0] += 36
                await press(pilot, "c")

            assert "100/h" in lines(pilot)[0]


def page(*numbers: int, beyond: int = 0) -> TriagePage:
    """A page with these conversations, and so many more behind it."""
    items = tuple(TriageItem(number, f"because {number}") for number in numbers)
    return TriagePage(items, len(items) + beyond)


class TestQueue:
    def test_refresh_keeps_passed_and_current(self) -> None:
        """Only what is to come is exchanged by a refresh."""
        queue = TriageQueue()
        queue.refresh(page(1, 2, 3))
        queue.skip()
        queue.refresh(page(9, 3, 2, 1))

        assert queue.ids == [1, 2, 9, 3]
        assert queue.current == TriageItem(2, "because 2")

    def test_judged_items_do_not_come_back(self) -> None:
        """A refresh read before a verdict was written does not bring the item again."""
        queue = TriageQueue()
        queue.refresh(page(1, 2))
        queue.judge()
        queue.refresh(page(1, 2))
        queue.judge()

        assert queue.current is None

    def test_a_drained_queue_goes_on_with_new_page(self) -> None:
        """After the last verdict, new items become current."""
        queue = TriageQueue()
        queue.refresh(page(1))
        queue.judge()
        queue.refresh(page(5))

        assert queue.current == TriageItem(5, "because 5")

    def test_undo_of_an_older_verdict_inserts_it(self) -> None:
        """A conversation judged before this session comes in front of the current one when taken back."""
        queue = TriageQueue()
        queue.refresh(page(1, 2))
        queue.bring_back(77, "taken back")

        assert queue.ids == [77, 1, 2]
        assert queue.position == 1

    def test_breaks_do_not_count(self) -> None:
        """A pause of more than ten minutes starts the pace anew."""
        pace = Pace()
        for now in (0, 10, 20, 5000, 5010):
            pace.tick(now)
        assert pace.per_hour is None

        pace.tick(5020)
        assert pace.per_hour == 360
