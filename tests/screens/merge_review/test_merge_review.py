"""The merge desk: one key for each decision, nothing decided unseen, nothing lost."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Static

from engine.base.conversation import State
from engine.base.errors import WorkbenchError
from engine.base.events import DataChanged, JobProgress
from engine.goals.records import MemberRow, Pair, PairAnswer, Proposal
from engine.goals.service.merge_review import MergeReviewService
from engine.goals.tables import decisions
from engine.goals.tables.decisions import AnswerEntry
from screens.goals.members_screen import GoalMembersScreen
from screens.merge_review.screen import MergeDeskScreen
from screens.widgets.groups import distinct, proposed_label
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.goals.goal_project import LABELS, clustered, group_id, kinds
from tests.screens.project import ScreenProject
from tests.screens.stand_ins import raising

FIRST = ("Exchange a damaged lamp", "Return a damaged lamp")
"""The labels of the first proposal."""


def desk(pilot: Pilot[None]) -> MergeDeskScreen:
    """The merge desk, which is in front."""
    screen = pilot.app.screen
    assert isinstance(screen, MergeDeskScreen)
    return screen


def front(pilot: Pilot[None]) -> tuple[str, str]:
    """The labels of the pair in front."""
    shown = desk(pilot).cursor.front
    assert shown is not None
    return shown.proposal.a.label, shown.proposal.b.label


def pair_of(support: ScreenProject, a: str, b: str) -> Proposal:
    """The proposal of two labels."""
    return support.merge_review.pair(group_id(support, a), group_id(support, b))


def answer(
    support: ScreenProject,
    pair: Pair,
    yes: float,
    yes_reversed: float,
    said: str = "Lamps",
) -> None:
    """Stores a model's answer on a pair, as a run does while the desk is open; `said` is its reason and label."""
    view = support.goals.view()
    sides = view.state.sides_key(*pair)
    row = AnswerEntry(sides, PairAnswer(yes, yes_reversed, said, said, said, said), 4, 1.0)
    support.file.write(lambda conn: decisions.show_answers(conn, view.stored.id, "pairs"))
    support.file.write(lambda conn: decisions.add_answers(conn, "pairs", view.stored.run_id, [row]))
    support.emit(DataChanged(frozenset({"goal_answer"})))


class TestLooking:
    async def test_evidence_is_beside_the_decision(self) -> None:
        """Both labels, sizes, members, the merge probability and the outcome are in sight; space shows other members,
        and after the last the first again; a opens the members of the left group. The model's answer appears when it
        arrives; neither the pair nor the scroll position changes."""
        support = clustered()
        async with opened(support, (80, 24), mode="6") as pilot:
            shown = text(pilot)
            for label in FIRST:
                assert label[:24] in shown
            assert "central" in shown
            assert "merge  ▇" in shown
            assert "after  11" in shown
            assert "0 merged, 0 refused" in shown
            assert "y Merge" in lines(pilot)[-2]
            pane = pilot.app.screen.query_one("#side-a .members", Static)
            first = str(pane.content)
            await press(pilot, "space")
            assert "central 4 of 7 · page 1/2" in first
            assert "page 2/2" in str(pane.content)
            await press(pilot, "space")
            assert str(pane.content) == first
            await press(pilot, "a")
            assert isinstance(pilot.app.screen, GoalMembersScreen)
            assert FIRST[0] in text(pilot)
            await press(pilot, "escape")
            assert front(pilot) == FIRST

            assert "model  not asked" in text(pilot)
            scrolled = pilot.app.screen.query_one("#side-a VerticalScroll", VerticalScroll)
            scrolled.focus()
            await press(pilot, "down", "down")
            assert scrolled.scroll_offset.y == 2
            support.jobs.running = [
                JobProgress(7, "propose", "Asking", 1, 2, "pairs", 1.0, 1.0, "")
            ]
            answer(support, pair_of(support, *FIRST).pair, 0.81, 0.31)
            await until(pilot, lambda: "reversed .31" in text(pilot))
            assert (front(pilot), scrolled.scroll_offset.y) == (FIRST, 2)
            assert "depends on which comes first" in text(pilot)
            assert "asking …" in text(pilot)


@pytest.mark.parametrize(("yes", "label"), [(0.7, "Lamps"), (0.3, FIRST[0]), (None, FIRST[0])])
def test_a_model_that_says_no_names_nothing(yes: float | None, label: str) -> None:
    """The model's label is proposed where it says yes; else the merged group keeps the label of the larger."""
    proposal = pair_of(clustered(), *FIRST)
    evidence = replace(
        proposal.evidence, answer=PairAnswer(yes=yes, yes_reversed=yes, label="Lamps")
    )
    assert proposed_label(replace(proposal, evidence=evidence)) == label


def test_equal_texts_stand_once() -> None:
    """Members with the same text in other case or spacing are shown once, in order, with their number."""
    member = MemberRow(1, "a", "Hello  there", 0, 0.1, 0.2, "", State.COMPLETE)
    found = distinct([member, replace(member, text="Bye"), replace(member, text="hello there")])
    assert [(row.text, copies) for row, copies in found] == [("Hello  there", 2), ("Bye", 1)]


class HeldReview(MergeReviewService):
    """Gives no proposal while `hold` is cleared."""

    hold = threading.Event()

    def proposal(self, skipped: Sequence[Pair] = ()) -> Proposal | None:
        self.hold.wait()
        return super().proposal(skipped)


class TestDeciding:
    async def test_merge(self) -> None:
        """y merges both under the label that is shown, n refuses, N refuses for good, and each time another pair is in
        front. u undoes the newest decision and puts its pair in front."""
        support = clustered()
        async with opened(support, mode="6") as pilot:
            pair = desk(pilot).cursor.pair
            await press(pilot, "y")
            (given,) = support.merge_review.history()
            assert (given.kind, given.sides) == ("merge", pair)
            assert given.names[0][0] == FIRST[0]
            assert front(pilot) != FIRST
            assert "1 merged, 0 refused" in text(pilot)
            assert "proposal 2" in lines(pilot)[0]
            second = front(pilot)
            await press(pilot, "n")
            third = front(pilot)
            await press(pilot, "N")
            assert kinds(support) == ["merge", "apart", "never"]
            assert len({FIRST, second, third, front(pilot)}) == 4

            await press(pilot, "u", "u", "u")
            assert kinds(support) == []
            assert front(pilot) == FIRST
            assert "Undone: merged" in text(pilot)

    async def test_quick_fingers(self) -> None:
        """Keys pressed faster than the desk is read decide on what was read ahead, in the order shown."""
        support = clustered()
        held = support.merge_review = support.review_service(HeldReview)
        assert isinstance(held, HeldReview)
        held.hold.set()
        async with opened(support, mode="6") as pilot:
            cursor = desk(pilot).cursor
            shown = [cursor.pair, *(page.proposal.pair for page in cursor.ahead)]
            held.hold.clear()
            await pilot.press("n", "n", "n")
            held.hold.set()
            await settle(pilot)
            assert [given.sides for given in support.merge_review.history()[::-1]] == shown[:3]

    async def test_nothing_is_decided_unseen(self) -> None:
        """A decision key while no pair is shown says so and decides nothing."""
        support = clustered()
        held = support.merge_review = support.review_service(HeldReview)
        assert isinstance(held, HeldReview)
        held.hold.set()
        async with opened(support, mode="6") as pilot:
            cursor = desk(pilot).cursor
            pair = cursor.pair
            assert pair is not None
            ahead = [page for page in cursor.ahead if not page.shares_group(pair)]
            held.hold.clear()
            await pilot.press("y")
            for _ in range(4):
                await pilot.press("n")
            held.hold.set()
            await settle(pilot)
            assert "nothing was decided" in text(pilot)
            assert kinds(support) == ["merge", *["apart"] * len(ahead)]
            assert len(ahead) < 4

    async def test_skip_comes_again(self) -> None:
        """s skips a pair; when only skipped ones are left they come again, and it says so."""
        support = clustered()
        async with opened(support, mode="6") as pilot:
            seen = [front(pilot)]
            while True:
                await press(pilot, "s")
                if front(pilot) == seen[0]:
                    break
                seen.append(front(pilot))
            assert len(seen) == support.merge_review.progress().left
            assert "Only skipped pairs are left" in text(pilot)
            assert kinds(support) == []

    async def test_label_in_place(self) -> None:
        """e edits the label in place: enter takes it for this pair, escape keeps the old one."""
        support = clustered()
        async with opened(support, mode="6") as pilot:
            await press(pilot, "e", "end", "x", "escape")
            assert "label: yours" not in text(pilot)
            await press(pilot, "e", *["backspace"] * len(FIRST[0]), *"Lamps", "enter")
            assert "label: yours" in text(pilot)
            await press(pilot, "y")
            assert support.merge_review.history()[0].names[0][0] == "Lamps"
            assert "label: yours" not in text(pilot)

    async def test_failed_write(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A decision that cannot be stored comes back in front, with the error."""
        support = clustered()
        monkeypatch.setattr(
            support.merge_review, "merge", raising(WorkbenchError("The disk is full."))
        )
        async with opened(support, mode="6") as pilot:
            await press(pilot, "y")
            assert "The disk is full." in text(pilot)
            await press(pilot, "enter")
            assert front(pilot) == FIRST
            assert kinds(support) == []


class TestHistory:
    async def test_any_act_is_undone(self) -> None:
        """H lists the decisions, the newest first, and counts the acts; u undoes the one under the cursor."""
        support = clustered()
        support.merge_review.place([group.id for group in support.goals.groups()][-2:], "Rest")
        async with opened(support, (160, 40), mode="6") as pilot:
            await press(pilot, "e", "ctrl+u", *"Lamps", "enter", "y", "n", "H")
            assert "3 acts" in text(pilot)
            await press(pilot, "down")
            assert "into “Lamps”" in text(pilot)
            await press(pilot, "u")
            assert "1 undone" in text(pilot)
            await press(pilot, "u")
            assert "It is undone already." in text(pilot)
            await press(pilot, "escape")
            assert "3 acts" not in text(pilot)

    async def test_notices_leave_the_newest_decisions_and_the_keys(self) -> None:
        """After an undo the notice covers neither the decision that it is about nor a key; the list says it too."""
        async with opened(clustered(), (80, 24), mode="6") as pilot:
            await press(pilot, "y", "n", "H", "u")
            shown = lines(pilot)
            assert "Undone: kept" in "\n".join(shown)
            pilot.app.clear_notifications()
            await settle(pilot)
            alone = lines(pilot)
            assert "undone: kept" in alone[3]
            assert (shown[:6], shown[-2:]) == (alone[:6], alone[-2:])


async def test_a_vanished_pair_gives_way() -> None:
    """When something else merges a group away, the next pair takes the place of one that no longer exists."""
    support = clustered()
    async with opened(support, mode="6") as pilot:
        screen = desk(pilot)
        assert screen.cursor.pair == pair_of(support, *FIRST).pair
        merged = support.merge_review.merge(pair_of(support, LABELS[0], LABELS[1]))
        following = support.merge_review.proposal()
        assert following is not None
        await until(pilot, lambda: screen.cursor.pair == following.pair)
        assert not {*following.pair} & {*merged.sides}
