"""Triage as a session: verdicts, auto-advance, undo, notes, and nothing that moves under the hands."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.base.conversation import Verdict
from engine.base.errors import ProjectError
from engine.base.events import DataChanged
from engine.conversations.filters import ListQuery, parse_filter
from engine.project import runs
from engine.questions.records import Answerer, MachineAnswer, NewAnswer, TriageItem, TriagePage
from engine.questions.tables import answers, machine_answers, triage_queue
from screens.reader import ReaderScreen
from screens.shell.dialogs import ChoiceDialog, ErrorDialog
from screens.triage.queue import TriageQueue
from screens.triage.screen import TriageScreen
from screens.widgets.curve import Curve
from screens.widgets.transcript import Transcript
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.project import ScreenProject, project, project_of
from tests.screens.samples import conversation
from tests.screens.stand_ins import raising
from tests.screens.triage.ordering import choose_order


class TestVerdicts:
    async def test_each_key_gives_its_verdict_and_goes_on(self) -> None:
        """`c`, `i` and `m` record complete, incomplete and unsure for what was shown, and show the next; the first
        without a name says which key gives one. `u` takes the newest back and shows its conversation; `U` gives it
        again and goes on."""
        support = project()
        queue = [item.conversation_id for item in support.triage.queue().items]
        async with opened(support) as pilot:
            await press(pilot, "3")
            assert "support/0002" in lines(pilot)[2]
            assert "1 of 21" in lines(pilot)[0]

            await press(pilot, "c")
            assert "stored without a name; @ gives yours" in text(pilot)
            pilot.app.clear_notifications()
            await press(pilot, "i", "m")
            assert "stored without a name" not in text(pilot)
            given = [(row.conversation_id, row.value) for row in support.acts()]
            assert given == [*zip(queue, (Verdict.YES, Verdict.NO, Verdict.UNSURE), strict=False)]
            assert f"support/{queue[3]:04d}" in lines(pilot)[2]
            assert "4 of 21" in lines(pilot)[0]
            assert "● 1  ○ 1  ◐ 1" in lines(pilot)[0]

            await press(pilot, "u")
            assert len(support.acts()) == 2
            assert f"support/{queue[2]:04d}" in lines(pilot)[2]
            assert "no verdict yet" in text(pilot)
            await press(pilot, "U")
            assert len(support.acts()) == 3
            assert f"support/{queue[3]:04d}" in lines(pilot)[2]

    async def test_fast_keys_are_written_in_order(self) -> None:
        """Verdicts given faster than they are written all arrive, in the order given. `N` keeps a note with the
        conversation that is shown, and the note is shown at once."""
        support = project()
        queue = [item.conversation_id for item in support.triage.queue().items]
        async with opened(support, mode="3") as pilot:
            await pilot.press(*"cicicici")
            await settle(pilot)
            given = [(row.conversation_id, row.value) for row in support.acts()]
            assert given == [*zip(queue, [Verdict.YES, Verdict.NO] * 4, strict=False)]

            await press(pilot, "N", *"odd", "enter")
            assert support.acts()[-1][:3] == (queue[8], "note", "odd")
            assert "odd" in text(pilot)
            assert f"support/{queue[8]:04d}" in lines(pilot)[2]

    async def test_undo_of_an_import(self) -> None:
        """Verdicts that were imported are taken back and given again together, the notice says how many, and the queue
        follows."""
        support = project()
        waiting = [item.conversation_id for item in support.triage.queue("informative").items]
        acts = [NewAnswer(key, "succeeded", Verdict.YES, "ann") for key in waiting[:2]]
        support.file.write(lambda conn: answers.give_all(conn, acts))
        async with opened(support) as pilot:
            await press(pilot, "3", "u")
            assert "2 imported verdicts taken back." in text(pilot)
            assert support.triage.tally()[Verdict.YES] == 0
            await until(pilot, lambda: f"1 of {len(waiting)}" in lines(pilot)[0])
            await press(pilot, "U")
            assert "2 imported verdicts given again." in text(pilot)
            await until(pilot, lambda: f"1 of {len(waiting) - 2}" in lines(pilot)[0])

    async def test_skip_comes_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was skipped, more than a page has, keeps nothing behind it from coming, and comes again when all others
        have a verdict."""
        monkeypatch.setattr(triage_queue, "PAGE", 3)
        support = project_of([conversation(number, 0.5) for number in range(1, 9)])
        async with opened(support, mode="3") as pilot:
            await press(pilot, *"sssss")
            assert "support/0006" in lines(pilot)[2]

            await press(pilot, *"ccc")
            assert "support/0001" in lines(pilot)[2]

            await press(pilot, *"ccccc")
            assert "Nothing is left in the queue. 8 answers given." in text(pilot)

    async def test_failed_write_brings_the_item_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A verdict that could not be written is told, and its conversation is in front again."""
        support = project()
        async with opened(support) as pilot:
            await press(pilot, "3")
            error = ProjectError("The disk is full.", "Free some space.")
            monkeypatch.setattr(support.triage, "give", raising(error))
            await press(pilot, "c")
            assert isinstance(pilot.app.screen, ErrorDialog)

            await press(pilot, "enter")
            assert "support/0002" in lines(pilot)[2]
            assert support.acts() == []

    async def test_read_only(self) -> None:
        """In a read-only project a verdict key says why it does nothing."""
        support = project(read_only="another workbench is writing it")
        async with opened(support) as pilot:
            await press(pilot, "3", "c")

            assert support.acts() == []
            assert "another workbench is writing it" in text(pilot)
            assert "support/0002" in lines(pilot)[2]


class TestPlace:
    async def test_place_is_kept(self) -> None:
        """Going to the list and back shows the same conversation. `o` opens it in the reader, and back is the same."""
        async with opened(project()) as pilot:
            await press(pilot, "3", "s")
            await press(pilot, "2", "down", "3")
            assert "support/0014" in lines(pilot)[2]

            await press(pilot, "o")
            assert isinstance(pilot.app.screen, ReaderScreen)
            assert "support/0014" in lines(pilot)[1]

            await press(pilot, "q")
            assert "support/0014" in lines(pilot)[2]

    async def test_new_scores_do_not_move_what_is_shown(self) -> None:
        """When the queue changes, the item in front and the turn that is marked on its curve stay, a new score of it
        appears, and what is to come is exchanged."""
        support = project()
        async with opened(support, mode="3") as pilot:
            await press(pilot, "left_square_bracket", "left_square_bracket")
            curve = pilot.app.screen.query_one(Curve)
            assert curve.marked == 2  # of five points, and not the last
            support.add(conversation(99, 0.5))
            support.emit(DataChanged(frozenset({"score"})))
            await until(pilot, lambda: "1 of 22" in lines(pilot)[0])
            await settle(pilot)
            assert curve.marked == 2
            assert "support/0002" in lines(pilot)[2]

            support.rescore(2, 0.93)
            support.emit(DataChanged(frozenset({"score"})))
            await until(pilot, lambda: ".93" in text(pilot))
            assert "support/0002" in lines(pilot)[2]

            await press(pilot, "s")
            assert "support/0099" in lines(pilot)[2]


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

    def test_restore(self) -> None:
        """A restored queue has what was skipped behind the current item, in its order, so that it comes at the end."""
        queue = TriageQueue()
        queue.refresh(page(1, 2, 3, 4, 5))
        queue.restore(3, (4, 1))
        assert queue.ids == [4, 1, 3, 2, 5]
        assert queue.skipped == (4, 1)
        for _ in range(3):
            queue.judge()
        assert queue.current == TriageItem(4, "because 4")

    def test_restore_of_what_is_gone(self) -> None:
        """When the conversation was judged elsewhere meanwhile, the queue goes on with the next one."""
        queue = TriageQueue()
        queue.refresh(page(1, 2))
        queue.restore(9, (2,))
        assert queue.current == TriageItem(1, "because 1")
        empty = TriageQueue()
        empty.restore(9, ())
        assert empty.current is None

    def test_a_long_queue_counts_what_is_not_read_yet(self) -> None:
        """The total holds all that waits, and the next page is wanted before the first one ends."""
        queue = TriageQueue()
        queue.refresh(page(*range(1, 151), beyond=850))
        wanted = [queue.wants_more]
        for _ in range(60):
            queue.judge()
        assert [*wanted, queue.wants_more] == [False, True]
        assert queue.total == 1000


class TestOrderAndFilter:
    async def test_another_order(self) -> None:
        """`O` offers the orders with their reasons; the queue begins anew in the chosen one, which is shown. In the
        list's order it has the list's filter and sorting."""
        support = project()
        support.saved.save_view(ListQuery(parse_filter("state:ended")), None)
        async with opened(support, mode="3") as pilot:
            assert "near the threshold first" in lines(pilot)[3]
            await press(pilot, "O")
            assert "drawn at random" in text(pilot)
            await press(pilot, "down", "enter")
            assert "lowest score first" in lines(pilot)[3]
            assert "1 of 36" in lines(pilot)[0]
            assert "support/0011" in lines(pilot)[2]

            await choose_order(pilot, "list")
            assert "the list's order" in lines(pilot)[3]
            assert "1 of 15" in lines(pilot)[0]

    async def test_filter(self) -> None:
        """`f` narrows the queue to what a filter matches; a filter nothing matches says how to go on."""
        async with opened(project(), mode="3") as pilot:
            await press(pilot, "f", *"state:not-scored", "enter")
            assert "▽ state:not-scored" in text(pilot)
            assert "1 of 3" in lines(pilot)[0]

            await press(pilot, "c", "c", "c")
            assert "Nothing waits for an answer in this order and with this filter." in text(pilot)

    async def test_no_machine_to_check(self) -> None:
        """The order that checks a machine says that none has answered, and what asks one."""
        async with opened(project(), (80, 24), mode="3") as pilot:
            await choose_order(pilot, "check")
            shown = " ".join(text(pilot).split())
            assert "No pattern, model, file or probe has answered this question" in shown
            assert "2 and then Q asks one of them." in shown


class TestRestart:
    async def test_place(self) -> None:
        """After a restart the order, the filter, the conversation and what was skipped are as they were."""
        support = project()
        async with opened(support, mode="3") as pilot:
            await press(pilot, "O", "down", "enter", "s", "c", "s")
            before, position = lines(pilot)[2], support.triage.place()
        assert position.order == "lowest"
        assert len(position.skipped) == 2
        async with opened(support, mode="3") as pilot:
            assert lines(pilot)[2] == before
            assert "lowest score first" in lines(pilot)[3]
            assert "3 of " in lines(pilot)[0]


async def choose_question(pilot: Pilot[None], name: str) -> None:
    """Takes this one in the list of questions."""
    await press(pilot, "Q")
    await until(pilot, lambda: "Which question" in text(pilot))
    dialog = pilot.app.screen
    assert isinstance(dialog, ChoiceDialog)
    dialog.dismiss(name)
    await until(pilot, lambda: f"{name} · " in lines(pilot)[3])
    await settle(pilot)


def answered_by(
    support: ScreenProject, question: str, values: Mapping[int, str], config: str = "first"
) -> None:
    """Lets a model answer a question, which cites the third message of each conversation."""

    def write(conn: sqlite3.Connection) -> None:
        run = runs.create(conn, stage="ask", config_hash=config, params={}, fingerprints={})
        answers = [
            MachineAnswer(key, value, None, "It says so.", ((2, 0, 0),))
            for key, value in values.items()
        ]
        judge = Answerer(config, question, "model", "judge")
        machine_answers.put(conn, judge, run, answers)

    support.file.write(write)


class TestQuestions:
    async def test_yes_and_no(self) -> None:
        """`Q` chooses another question; its keys answer it, undo and skip work as for verdicts, and the place is kept
        with the question."""
        support = project()
        async with opened(support, mode="3") as pilot:
            await choose_question(pilot, "refused")
            assert "Did the assistant refuse what was asked?  y yes   n no" in text(pilot)
            shown = pilot.app.screen
            assert isinstance(shown, TriageScreen)
            first, second, third = shown.queue.ids[:3]
            await press(pilot, "y", "n", "m", "u", "s")
            acts = [(row.conversation_id, row.question, row.value) for row in support.acts()]
            assert acts == [(first, "refused", "yes"), (second, "refused", "no")]
            assert support.triage.tally()[Verdict.YES] == 0
            place = support.triage.place()
            assert (place.question, place.skipped) == ("refused", (third,))
        async with opened(support, mode="3") as pilot:
            await until(pilot, lambda: "refused · " in lines(pilot)[3])

    async def test_labels_numbers_and_texts(self, tmp_path: Path) -> None:
        """A digit answers with the label that it is, else with the label of its number; ticks answer several, a line a
        number, which is refused where it is none."""
        support = project()
        questions = support.services().questions
        for name, kind, labels in (
            ("stars", "scale", '0 = "none"\n1 = "one"'),
            ("topic", "choice", 'lamp = "a lamp"\nflight = "a flight"'),
            ("asks", "several", 'price = ""\ndate = ""'),
            ("count", "number", ""),
            ("many", "choice", "".join(f'label{n} = ""\n' for n in range(1, 11))),
        ):
            file = tmp_path / f"{name}.toml"
            file.write_text(f'text = "Which?"\nkind = "{kind}"\n[labels]\n{labels}\n', "utf-8")
            questions.add(file)
        async with opened(support, mode="3") as pilot:
            await choose_question(pilot, "stars")
            await press(pilot, "0", "9")
            assert "There is no label 9" in text(pilot)
            await choose_question(pilot, "topic")
            await press(pilot, "2")
            await choose_question(pilot, "asks")
            await press(pilot, "2", "space", "enter")  # the first has the cursor
            await choose_question(pilot, "many")
            assert "9 label9   r label10" in text(pilot)
            await choose_question(pilot, "count")
            assert "◐" not in lines(pilot)[0]
            await press(pilot, "r", *"many", "enter")
            assert "Answers are a number." in text(pilot)
            await press(pilot, "escape", "r", *"12", "enter")
        given = [(row.question, row.value) for row in support.acts()]
        assert given == [
            ("stars", "0"),
            ("topic", "flight"),
            ("asks", "price,date"),
            ("count", "12"),
        ]

    async def test_a_machine_is_checked(self) -> None:
        """The first order after a machine's answers draws 20, hides what it says, and shows how far it is right and the
        corrected rate as answers come; a newer configuration is not what was checked."""
        support = project()
        answered_by(support, "refused", {key: "yes" if key < 10 else "no" for key in range(1, 37)})
        async with opened(support, mode="3") as pilot:
            await choose_question(pilot, "refused")
            assert "20 drawn to check judge" in lines(pilot)[3]
            assert "1 of 20" in lines(pilot)[0]
            await until(pilot, lambda: "It says so." not in text(pilot))
            await press(pilot, "y", "y", "n", "n")
            await until(pilot, lambda: "judge right on 2 of 4 · yes " in lines(pilot)[3])
            (checked,) = support.services().questions.checks("refused")
            assert checked.shares[0].text in lines(pilot)[3]
            await press(pilot, *["n"] * 16)
            await choose_order(pilot, "check")
            assert "16 left" not in text(pilot)
            assert len(support.triage.queue("check", question="refused").items) == 16
        answered_by(support, "refused", {1: "no"}, config="newer")
        assert support.services().questions.checks("refused") == []

    async def test_the_cited_message_is_one_key_away(self) -> None:
        """`.` goes to the message that a machine cites and says who answers what and why; the margin marks it."""
        support = project_of([conversation(1, 0.5)])
        answered_by(support, "refused", {1: "no"})
        async with opened(support, mode="2") as pilot:
            await press(pilot, "down", "enter")
            assert "»" in text(pilot)
            await press(pilot, "full_stop")
            reader = pilot.app.screen.query_one(Transcript)
            assert reader.message is not None
            assert reader.message.index == 2
            assert "judge: refused: no · It says so." in text(pilot)


class TestTags:
    async def test_tags_are_answers(self) -> None:
        """`t` answers yes-no questions with yes, a minus before a name takes an answer away, and undo says which;
        names of questions with other answers are refused."""
        support = project()
        async with opened(support, mode="3") as pilot:
            await press(pilot, "t", *"late, odd", "enter")
            assert "#late" in text(pilot)
            assert "#odd" in text(pilot)

            await press(pilot, "t", *"-odd", "enter")
            assert "#late" in text(pilot)
            assert "#odd" not in text(pilot)
            assert [row[1:3] for row in support.acts()] == [
                ("late", "yes"), ("odd", "yes"), ("odd", None),
            ]  # fmt: skip

            await press(pilot, "t", *"new, intent", "enter")
            assert "“intent” is no yes-no question." in text(pilot)
            assert len(support.acts()) == 3

            await press(pilot, "escape", "u")
            assert "Removal of odd on 1 conversation taken back." in text(pilot)
            assert "#odd" in text(pilot)
            assert "support/0002" in lines(pilot)[2]


def judged(verdicts: int, count: int = 60) -> ScreenProject:
    """Conversations with scores all over, the first of them judged as a person would who draws the line at .3."""
    steps = [n * 0.618 % 1 for n in range(1, count + 1)]
    support = project_of([conversation(n, round(p, 3)) for n, p in enumerate(steps, 1)])
    for n, p in enumerate(steps[:verdicts], 1):
        support.triage.give(n, Verdict.YES if p >= 0.3 else Verdict.NO)
    return support


class TestBlind:
    async def test_ten_again(self) -> None:
        """`b` asks ten again without the model's opinion, the verdict, and what machines say and cite, and says how
        well they agree. Undo in a blind round takes the blind answer back and asks again; `b` ends the round. The
        agreement of the verdicts with the scores is in the calibration."""
        support = judged(30)
        answered_by(support, "refused", dict.fromkeys(range(1, 61), "no"))
        async with opened(support, mode="3") as pilot:
            await press(pilot, "K")
            assert "κ ." in text(pilot)

            await press(pilot, "escape", "b", "full_stop")
            assert "Blind repeat 1 of 10" in text(pilot)
            assert "No message has a sign of trouble or is cited" in text(pilot)
            for hidden in ("threshold .50", "Remaining tasks", "Why it is here", "no verdict yet"):
                assert hidden not in text(pilot)

            for n in support.triage.to_repeat(10):
                current = support.triage.current(n)
                assert current is not None
                await press(pilot, "c" if current.verdict is Verdict.YES else "i")
            assert "You agree with yourself: 100% [72, 100] n 10" in text(pilot)
            assert "Why it is here" in text(pilot)
            assert sum(row.blind for row in support.acts()) == 10
            assert support.triage.tally()[Verdict.YES] + support.triage.tally()[Verdict.NO] == 30

            await press(pilot, "b", "m", "m")
            assert "Blind repeat 3 of 10" in text(pilot)
            await press(pilot, "u")
            assert "Blind repeat 2 of 10" in text(pilot)
            assert sum(row.blind for row in support.acts()) == 11
            await press(pilot, "b")
            assert "Why it is here" in text(pilot)
            assert support.triage.tally()[Verdict.UNSURE] == 0
            await press(pilot, "full_stop")
            assert "» judge: refused: no" in text(pilot)

    async def test_too_early(self) -> None:
        """Before twenty verdicts `b` says when; with the twentieth it is offered."""
        support = judged(18)
        async with opened(support, mode="3") as pilot:
            await press(pilot, "b")
            assert "Blind repeats begin at 20 answers; there are 18." in text(pilot)
            await press(pilot, "c", "c")
            assert "b asks ten of them again, blind" in text(pilot)


class TestPeople:
    async def test_two_people(self) -> None:
        """`@` asks for a name; `b` asks what others judged, says how far the two agree, and what they disagree on
        waits in an order of its own until somebody decides."""
        support = judged(12, 30)
        async with opened(support, mode="3") as pilot:
            await press(pilot, "@", *"bob", "enter")
            assert "Your verdicts are stored with the name bob from now on." in text(pilot)
            await press(pilot, "b")
            assert "Second answer 1 of 10" in text(pilot)
            assert "no verdict yet" not in text(pilot)
            await press(pilot, *"iiiiiiiiii")
            found = support.calibration.people()
            assert found.people == {"": 12, "bob": 10}
            assert "(no name) and bob agree on" in text(pilot)

            await choose_order(pilot, "people")
            open_ones = found.disagreements
            assert open_ones > 0
            assert f"1 of {open_ones}" in text(pilot)
            assert "people disagree: (no name)" in text(pilot)
            await press(pilot, "c")
            assert support.calibration.people().disagreements == open_ones - 1

            await press(pilot, "K")
            assert "(no name) and bob agree on" in text(pilot)


class TestNarrow:
    async def test_toast_covers_nothing_to_act_on(self) -> None:
        """At 80 columns a toast leaves remaining tasks, status line, footer and the keys of a blind round in sight."""
        async with opened(project(), size=(80, 24), mode="3") as pilot:
            before = lines(pilot)
            await press(pilot, "u")
            after = lines(pilot)
            assert any("There is nothing to undo" in line for line in after)
            assert after[:3] == before[:3]
            assert after[-11:] == before[-11:]
