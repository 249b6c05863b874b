"""The merge desk: one key for each decision, nothing decided unseen, nothing lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from screens.goals.formatting import label_for
from textual.containers import VerticalScroll
from textual.pilot import Pilot

from engine.errors import WorkbenchError
from engine.events import DataChanged
from engine.records.goals import Evidence, MemberRow
from engine.records.scores import State
from screens.goals.members_screen import GoalMembersScreen
from screens.merge_review.group_pane import SidePane, distinct
from screens.merge_review.screen import MergeDeskScreen
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.fakes import FakeProject
from tests.screens.goals.fake_goals import CLUSTERS, FakeGoals
from tests.screens.goals.goal_project import clustered

FIRST = ("Exchange a damaged lamp", "Return a damaged lamp")
"""The most similar pair of the fake clusters."""


def front(pilot: Pilot[None]) -> tuple[str, str]:
    """The labels of the pair in front."""
    screen = pilot.app.screen
    assert isinstance(screen, MergeDeskScreen)
    page = screen.place.front
    assert page is not None
    return page.proposal.a.label, page.proposal.b.label


def kinds(goals: FakeGoals) -> list[str]:
    return [given.kind for given in goals.decisions]


class TestLooking:
    @pytest.mark.parametrize("size", [(80, 24), (120, 34), (200, 60)])
    async def test_evidence_is_beside_the_decision(self, size: tuple[int, int]) -> None:
        """At every size both labels, sizes, members, the merge probability and the outcome are in sight."""
        async with opened(clustered(), size, mode="6") as pilot:
            shown = text(pilot)
            for label in FIRST:
                assert label[:24] in shown
            assert "central" in shown
            assert "merge  ▇" in shown
            assert "after  11" in shown
            assert "0 decided" in shown
            assert "y Merge" in lines(pilot)[-2]

    async def test_what_is_missing_is_said_and_fills_in(self) -> None:
        """The model's word appears when it arrives; neither the pair nor the place in its text moves."""
        fake = clustered()
        async with opened(fake, (80, 24), mode="6") as pilot:
            assert "was not asked" in text(pilot)
            pane = pilot.app.screen.query_one("#side-a VerticalScroll", VerticalScroll)
            pane.focus()
            await press(pilot, "down", "down")
            before = front(pilot), pane.scroll_offset.y
            assert before[1] == 2
            pair = frozenset(("c1", "c3"))
            fake.goals.answers[pair] = Evidence(
                0.81, 0.9, 0.88, 0.1, 0.2, 0.81, 0.31, "Both are about a lamp.", "Lamps"
            )
            fake.goals.asking = True
            fake.emit(DataChanged(frozenset({"goal_answer"})))
            await until(pilot, lambda: "reversed .31" in text(pilot))
            assert (front(pilot), pane.scroll_offset.y) == before
            assert "the order changed its mind" in text(pilot)
            assert "asking …" in text(pilot)

    async def test_other_evidence(self) -> None:
        """Space shows other members of both sides, and after the last the first again."""
        async with opened(clustered(), (120, 40), mode="6") as pilot:
            pane = pilot.app.screen.query_one("#side-a", SidePane)
            first = {member.conversation_id for member in pane.shown[:4]}
            await press(pilot, "space")
            assert not first & {member.conversation_id for member in pane.shown[:3]}
            await press(pilot, "space")
            assert first <= {member.conversation_id for member in pane.shown}

    async def test_members_of_a_side(self) -> None:
        """a opens the members of the left group; coming back, the pair is where it was."""
        async with opened(clustered(), mode="6") as pilot:
            await press(pilot, "a")
            assert isinstance(pilot.app.screen, GoalMembersScreen)
            assert FIRST[0] in text(pilot)
            await press(pilot, "escape")
            assert front(pilot) == FIRST

    async def test_without_a_clustering(self) -> None:
        """Nothing to merge says where goals are made."""
        fake = clustered()
        fake.goals.clusters = ()
        async with opened(fake, mode="6") as pilot:
            assert "no clustering was made yet" in text(pilot)
            await press(pilot, "y", "n", "space", "e", "a", "S", "o", "F")
            assert fake.goals.decisions == []


@pytest.mark.parametrize(("yes", "label"), [(0.7, "Lamps"), (0.3, FIRST[0]), (None, FIRST[0])])
def test_a_model_that_says_no_names_nothing(yes: float | None, label: str) -> None:
    """The model's label is proposed where it says yes; else the merged group keeps the label of the larger."""
    proposal = clustered().goals.pair("c1", "c3")
    found = replace(proposal.evidence, yes=yes, yes_reversed=yes, label="Lamps")
    assert label_for(replace(proposal, evidence=found)) == label


def test_equal_texts_stand_once() -> None:
    """Members that say the same in other case or spacing stand once, in order, with their number."""
    member = MemberRow(1, "a", "Hello  there", 0.1, 0.2, "", State.COMPLETE)
    told = distinct([member, replace(member, text="Bye"), replace(member, text="hello there")])
    assert [(row.text, times) for row, times in told] == [("Hello  there", 2), ("Bye", 1)]


class TestDeciding:
    async def test_merge(self) -> None:
        """y makes one group of both under the label that is shown, and the next pair is in front."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "y")
            (given,) = fake.goals.decisions
            assert (given.kind, given.sides) == ("merge", ("c1", "c3"))
            assert given.text == FIRST[0]
            assert front(pilot) != FIRST
            assert "1 decided (1 merged, 0 refused)" in text(pilot)
            assert "proposal 2" in lines(pilot)[0]

    async def test_apart_and_never(self) -> None:
        """n refuses, N refuses for good; neither pair comes again."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            first = front(pilot)
            await press(pilot, "n")
            second = front(pilot)
            await press(pilot, "N")
            assert kinds(fake.goals) == ["apart", "never"]
            assert len({first, second, front(pilot)}) == 3

    async def test_quick_fingers(self) -> None:
        """Keys pressed faster than the desk is read decide on what was read ahead, in the order shown."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            screen = pilot.app.screen
            assert isinstance(screen, MergeDeskScreen)
            ahead = [page.proposal.pair for page in screen.place.ahead]
            first = screen.place.pair
            await pilot.press("n", "n", "n")
            await settle(pilot)
            assert [given.sides for given in fake.goals.decisions] == [first, *ahead[:2]]

    async def test_nothing_is_decided_unseen(self) -> None:
        """A decision key while nothing is in front says so and decides nothing."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            fake.hold.clear()
            await pilot.press("y")
            for _ in range(4):
                await pilot.press("n")
            fake.hold.set()
            await settle(pilot)
            assert "nothing was decided" in text(pilot)
            assert (
                kinds(fake.goals) == ["merge", "apart", "apart", "apart"][: len(kinds(fake.goals))]
            )
            assert len(fake.goals.decisions) < 5

    async def test_skip_comes_again(self) -> None:
        """s passes a pair over; when only skipped ones are left they come again, and it says so."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            seen = [front(pilot)]
            while True:
                await press(pilot, "s")
                if front(pilot) == seen[0]:
                    break
                seen.append(front(pilot))
            assert len(seen) == fake.goals.progress().left
            assert "Only what you skipped is left" in text(pilot)
            assert fake.goals.decisions == []

    async def test_label_in_place(self) -> None:
        """e edits the label where it stands: enter takes it for this pair, escape leaves it."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "e", "end", "x", "escape")
            assert "label: yours" not in text(pilot)
            await press(pilot, "e", *["backspace"] * len(FIRST[0]), *"Lamps", "enter")
            assert "label: yours" in text(pilot)
            await press(pilot, "y")
            assert fake.goals.decisions[0].text == "Lamps"
            assert "label: yours" not in text(pilot)

    async def test_end(self) -> None:
        """When every pair was refused the desk says so and what can be done."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            for _ in range(fake.goals.progress().left):
                await press(pilot, "n")
            assert "every current pair was refused" in text(pilot)
            await press(pilot, "u")
            assert "every current pair was refused" not in text(pilot)
            assert front(pilot)

    async def test_failed_write(self) -> None:
        """A decision that cannot be written comes back in front, with the error."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            fake.goals.fail_next = WorkbenchError("The disk is full.")
            await press(pilot, "y")
            assert "The disk is full." in text(pilot)
            await press(pilot, "enter")
            assert front(pilot) == FIRST
            assert fake.goals.decisions == []

    async def test_read_only(self) -> None:
        """A project that cannot be written is looked at, not decided on."""
        fake = clustered()
        fake.read_only = "Another workbench writes it."
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "y", "n", "A", "S", "m", "u", "g")
            assert "Another workbench" in text(pilot)
            assert front(pilot) == FIRST
            assert fake.goals.decisions == []


class TestUndo:
    async def test_undo_brings_the_pair_back(self) -> None:
        """u takes the newest decision back and puts its pair in front; U gives it again."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "y", "n", "u", "u")
            assert fake.goals.decisions == []
            assert front(pilot) == FIRST
            assert "Taken back: merged" in text(pilot)
            await press(pilot, "U")
            assert kinds(fake.goals) == ["merge"]
            assert front(pilot) != FIRST
            await press(pilot, "U", "U")
            assert kinds(fake.goals) == ["merge", "apart"]
            assert "nothing to redo" in text(pilot)


class TestByHand:
    async def test_any_two(self) -> None:
        """m asks for two groups by words of their labels and puts them in front; y merges them."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "m", *"files", "enter", *"book a flight", "enter")
            assert set(front(pilot)) == {"Count files", "Book a flight"}
            assert fake.goals.decisions == []
            await press(pilot, "y")
            assert set(fake.goals.decisions[0].labels) == {"Count files", "Book a flight"}

    async def test_split(self) -> None:
        """S shows how a side would be parted; the number of parts can be changed before enter."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "S", "a")
            assert "into 2: 4 + 3" in text(pilot)
            await press(pilot, "right")
            assert "into 3: 3 + 2 + 2" in text(pilot)
            await press(pilot, "enter")
            (given,) = fake.goals.decisions
            assert (given.kind, given.sides, len(given.made)) == ("split", ("c1",), 3)

    async def test_move(self) -> None:
        """v moves a member that is in sight to a group that is picked."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "v", "enter", *"files", "enter")
            ((moved, to),) = fake.goals.moves.values()
            assert to == "c6"
            assert moved[0] in dict(CLUSTERS)[FIRST[0]]

    async def test_rename_and_pin(self) -> None:
        """r renames a side, p pins it: a pinned group is not proposed any more."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "r", "b", *"Lamps again", "enter")
            assert front(pilot) == (FIRST[0], "Lamps again")
            await press(pilot, "p", "a")
            assert kinds(fake.goals) == ["rename", "pin"]
            assert FIRST[0] not in front(pilot)

    async def test_order_and_floor(self) -> None:
        """o changes which pair comes first, F the similarity from which pairs are proposed."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "o", "end", "enter")
            assert fake.goals.order == "teaching"
            assert "what teaches most first" in text(pilot)
            await press(pilot, "F", *".9", "enter")
            assert fake.goals.floor == 0.9
            assert "lies below the floor .90" in text(pilot)

    async def test_asking(self) -> None:
        """g has the model asked about the pairs it was not asked about."""
        fake = clustered()
        async with opened(fake, mode="6") as pilot:
            await press(pilot, "g")
            assert fake.goals.started == ["ask"]


class TestHistory:
    async def test_replay(self) -> None:
        """H steps through the acts; beside each stands what it left behind, under the labels of then."""
        fake = clustered()
        async with opened(fake, (160, 40), mode="6") as pilot:
            await press(
                pilot, "e", *["backspace"] * len(FIRST[0]), *"Lamps", "enter", "y", "n", "H"
            )
            assert "2 acts" in text(pilot)
            assert "6 groups stood after it" in text(pilot)
            await press(pilot, "left")
            assert "into “Lamps”" in text(pilot)
            assert "⋈      11  Lamps" in text(pilot)
            await press(pilot, "u", "u")
            assert "2 taken back" in text(pilot)
            assert "7 groups" in text(pilot)
            await press(pilot, "escape")
            assert "7 groups" not in text(pilot)

    async def test_empty(self) -> None:
        """Before the first act it says what will be kept there."""
        async with opened(clustered(), mode="6") as pilot:
            await press(pilot, "H")
            assert "Nothing was decided yet" in text(pilot)
            await press(pilot, "y", "escape")

    async def test_narrow(self) -> None:
        """On a narrow terminal v changes between the acts and the groups."""
        async with opened(clustered(), (80, 24), mode="6") as pilot:
            await press(pilot, "n", "H")
            assert "kept apart" in text(pilot)
            assert "stood after it" not in text(pilot)
            await press(pilot, "v")
            assert "stood after it" in text(pilot)


async def test_an_hour_on_the_desk() -> None:
    """A session: merges, refusals, a skip, a label, a split, a never, undo and redo; all of it is held."""
    fake: FakeProject = clustered()
    async with opened(fake, (120, 34), mode="6") as pilot:
        await press(pilot, "y", "s", "n", "N", "u", "N")
        await press(pilot, "S", "a", "enter")
        await press(pilot, "e", "end", *" now", "enter", "y")
        await press(pilot, "H", "left", "left", "escape")
        await press(pilot, "u", "U")
    made = kinds(fake.goals)
    assert made[:4] == ["merge", "apart", "never", "split"]
    assert made[-1] == "merge"
    assert fake.goals.decisions[-1].text.endswith(" now")
    members = [m.conversation_id for g in fake.goals.groups() for m in fake.goals.members(g.id)]
    assert sorted(members) == sorted(m for _, ids in CLUSTERS for m in ids)


async def test_a_vanished_pair_gives_way() -> None:
    """When something else merges a group away, the next pair takes the place of one that no longer is."""
    fake = clustered()
    async with opened(fake, mode="6") as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, MergeDeskScreen)
        assert screen.place.pair == ("c1", "c3")
        fake.goals.merge(fake.goals.pair("c1", "c2"))
        await until(pilot, lambda: screen.place.pair == ("d1", "c3"))
