"""The goals: groups with their figures, their members, where they came from and how they changed."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from engine.errors import WorkbenchError
from engine.records.goals import GoalRequest
from screens.goals.members_screen import GoalMembersScreen
from screens.goals.screen import GoalsScreen
from screens.reader.screen import ReaderScreen
from tests.screens.driving import lines, opened, press, text, until
from tests.screens.fakes import project
from tests.screens.goals.fake_goals import CLUSTERS, OUTLIERS
from tests.screens.goals.goal_project import clustered

LABELS = [label for label, _ in CLUSTERS]


def listed(pilot: Pilot[None]) -> list[str]:
    """The labels of the list, from the top."""
    screen = pilot.app.screen
    assert isinstance(screen, GoalsScreen)
    return [group.label for _, group in screen._fetch(screen.table.ids)]


def in_front(pilot: Pilot[None], kind: type[Screen[Any]]) -> bool:
    """Whether a screen of this kind is in front."""
    return isinstance(pilot.app.screen, kind)


class TestList:
    @pytest.mark.parametrize("size", [(80, 24), (120, 34), (200, 60)])
    async def test_largest_first(self, size: tuple[int, int]) -> None:
        """Groups stand by size with share, completeness and stability; the summary tells what is outside."""
        async with opened(clustered(), size, mode="5") as pilot:
            assert listed(pilot)[0] == LABELS[0]
            summary = lines(pilot)[1]
            assert "7 goals of 31 conversations" in summary
            assert "2 outliers" in summary
            row = next(line for line in lines(pilot) if line.startswith(f" {LABELS[0]}"))
            assert "7" in row
            assert "%" in row

    async def test_sort_and_reverse(self) -> None:
        """s asks for an order, S turns it round, a click on a title sorts by it."""
        async with opened(clustered(), mode="5") as pilot:
            await press(pilot, "s", "home", "down", "enter")
            assert listed(pilot) == sorted(LABELS)
            await press(pilot, "S")
            assert listed(pilot) == sorted(LABELS, reverse=True)

    async def test_find(self) -> None:
        """/ lists only labels that hold all the words; escape lists all again."""
        async with opened(clustered(), mode="5") as pilot:
            await press(pilot, "slash", *"lamp damaged", "enter")
            assert sorted(listed(pilot)) == ["Exchange a damaged lamp", "Return a damaged lamp"]
            assert "2 of 7" in text(pilot)
            await press(pilot, "escape")
            assert len(listed(pilot)) == 7

    async def test_detail_follows_the_cursor(self) -> None:
        """The pane beside the list tells of the group under the cursor; narrow terminals change with v."""
        async with opened(clustered(), (120, 34), mode="5") as pilot:
            await press(pilot, "down")
            assert f"Users want: {LABELS[1]}." in text(pilot)
            assert "central" in text(pilot)
        async with opened(clustered(), (80, 24), mode="5") as pilot:
            assert "Users want" not in text(pilot)
            await press(pilot, "v")
            assert "Users want" in text(pilot)

    async def test_nothing_yet(self) -> None:
        """Without a clustering the screen says what to do, and no key fails."""
        async with opened(project(), mode="5") as pilot:
            assert "No goals yet" in text(pilot)
            await press(pilot, "m", "e", "p", "D", "t", "d", "O", "a", "b", "c", "X", "y", "M", "M")
            assert isinstance(pilot.app.screen, GoalsScreen)

    async def test_unstable_groups_are_marked(self) -> None:
        """A group that resampling dissolves carries a mark in the list and a word in the summary."""
        async with opened(clustered(), (160, 40), mode="5") as pilot:
            unstable = [g for g in clustered().goals.groups() if (g.stability or 1) < 0.6]
            assert unstable
            assert f"▲ {len(unstable)} unstable" in text(pilot)


class TestDeciding:
    async def test_merge_by_hand(self) -> None:
        """m asks with which group, shows what speaks for it, and merges under the label that is written."""
        fake = clustered()
        async with opened(fake, mode="5") as pilot:
            await press(pilot, "m", *"return", "enter")
            assert "Merge by hand" in text(pilot)
            assert "merge  ▇" in text(pilot)
            await press(pilot, *"Lamps", "enter")
            assert listed(pilot)[0] == "Lamps"
            await press(pilot, "u")
            assert sorted(listed(pilot)) == sorted(LABELS)
            await press(pilot, "U")
            assert listed(pilot)[0] == "Lamps"

    async def test_rename_pin_divide(self) -> None:
        """e renames the group under the cursor, p pins it, D parts it after a look."""
        fake = clustered()
        async with opened(fake, mode="5") as pilot:
            await press(pilot, "e", *"Lamps", "enter")
            assert listed(pilot)[0] == "Lamps"
            await press(pilot, "p")
            assert "◉ Lamps" in text(pilot)
            await press(pilot, "D", "enter")
            assert [given.kind for given in fake.goals.decisions] == ["rename", "pin", "split"]
            assert len(listed(pilot)) == 8

    async def test_refused(self) -> None:
        """What cannot be written is told, and the list is as it was."""
        fake = clustered()
        async with opened(fake, mode="5") as pilot:
            fake.goals.fail_next = WorkbenchError("The disk is full.")
            await press(pilot, "p")
            assert "The disk is full." in text(pilot)
            await press(pilot, "escape")
            assert listed(pilot)[0] == LABELS[0]


class TestMembers:
    async def test_reading_members(self) -> None:
        """Enter lists the members, enter there opens the reader, and coming back the cursor is on what was read."""
        async with opened(clustered(), mode="5") as pilot:
            await press(pilot, "enter")
            members = pilot.app.screen
            assert isinstance(members, GoalMembersScreen)
            assert sorted(members.table.ids) == sorted(dict(CLUSTERS)[LABELS[0]])
            await press(pilot, "enter")
            assert in_front(pilot, ReaderScreen)
            await press(pilot, "right", "right", "escape")
            assert in_front(pilot, GoalMembersScreen)
            assert members.table.cursor_index == 2
            await press(pilot, "q")
            assert isinstance(pilot.app.screen, GoalsScreen)

    async def test_moving_and_splitting_off(self) -> None:
        """Marked members move to another group together, or are split off; u takes it back."""
        fake = clustered()
        async with opened(fake, mode="5") as pilot:
            await press(pilot, "enter", "space", "space")
            assert "2 marked" in text(pilot)
            await press(pilot, "v", *"files", "enter")
            assert "Moved 2 conversations" in text(pilot)
            assert [len(moved) for moved, _ in fake.goals.moves.values()] == [2]
            await press(pilot, "u", "space", "S")
            assert isinstance(pilot.app.screen, GoalsScreen)
            assert fake.goals.decisions[-1].kind == "split"

    async def test_order_and_find(self) -> None:
        """o lists the doubtful ones first, / only what holds the words."""
        async with opened(clustered(), mode="5") as pilot:
            await press(pilot, "enter", "o", "down", "enter")
            assert "most doubtful first" in lines(pilot)[1]
            members = pilot.app.screen
            assert isinstance(members, GoalMembersScreen)
            await press(pilot, "slash", *"nothing like it", "enter")
            assert "No member holds these words." in text(pilot)
            await press(pilot, "escape")
            assert len(members.table.ids) == 7

    async def test_outliers(self) -> None:
        """O lists the conversations that are in no group."""
        async with opened(clustered(), mode="5") as pilot:
            await press(pilot, "O")
            members = pilot.app.screen
            assert isinstance(members, GoalMembersScreen)
            assert sorted(members.table.ids) == list(OUTLIERS)
            assert "2 outliers" in text(pilot)

    async def test_more_like_this(self) -> None:
        """= lists the nearest conversations, in the members and in the reader; enter reads one."""
        async with opened(clustered(), mode="5") as pilot:
            await press(pilot, "enter", "equals_sign")
            assert "More like support/" in text(pilot)
            await press(pilot, "enter")
            first = pilot.app.screen
            assert isinstance(first, ReaderScreen)
            await press(pilot, "equals_sign", "down", "enter")
            second = pilot.app.screen
            assert isinstance(second, ReaderScreen)
            assert second is not first
            await press(pilot, "escape")
            assert pilot.app.screen is first


class TestViews:
    async def test_map(self) -> None:
        """M shows the map alone with a letter on each group and their legend; the arrow keys go through the groups."""
        async with opened(clustered(), (100, 30), mode="5") as pilot:
            await press(pilot, "M")
            shown = text(pilot)
            assert all(
                f"{letter} {label[:12]}" in shown
                for letter, label in zip("AB", LABELS, strict=False)
            )
            assert any(0x2800 < ord(sign) < 0x2900 for sign in shown)
            screen = pilot.app.screen
            assert isinstance(screen, GoalsScreen)
            await press(pilot, "down")
            assert screen.table.cursor_index == 1
            await press(pilot, "escape")
            assert screen.table.has_focus

    async def test_tree_of_merges(self) -> None:
        """t lists each group with what it was made of and who made it; enter opens what was merged away."""
        fake = clustered()
        fake.goals.merge(fake.goals.pair("c1", "c3"), "Lamps")
        fake.goals.merge(fake.goals.pair("d1", "c6"), "Lamps and files")
        async with opened(fake, mode="5") as pilot:
            await press(pilot, "t")
            shown = lines(pilot)
            at = next(i for i, line in enumerate(shown) if "Lamps and files" in line)
            assert "you, 2026-10-31" in shown[at]
            assert "├ Lamps" in shown[at + 1]
            assert "│ ├ Exchange a damaged lamp" in shown[at + 2]
            assert "└ Count files" in shown[at + 4]
            await press(pilot, "down", "down", "enter")
            assert isinstance(pilot.app.screen, GoalMembersScreen)

    async def test_drift(self) -> None:
        """d lists the groups by how their shares changed; i compares imports."""
        async with opened(clustered(), mode="5") as pilot:
            await press(pilot, "d")
            assert "2026-09 to 2026-10" in lines(pilot)[1]
            await press(pilot, "i")
            assert "first.jsonl to second.jsonl" in lines(pilot)[1]
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, GoalsScreen)


class TestJobs:
    async def test_run(self) -> None:
        """r shows what a run takes before it starts; what is chosen is what runs."""
        fake = clustered()
        async with opened(fake, mode="5") as pilot:
            await press(pilot, "r")
            assert "36 conversations · about 5 s" in text(pilot)
            assert "it was 7 for 31 conversations" in text(pilot)
            assert "labels, merges asked of" in text(pilot)
            await press(pilot, "right", "down", *"minilm", "down", *"40", "down", *"3", "down")
            assert "Every proposed merge waits for your yes or no" in text(pilot)
            await press(pilot, "right")
            assert fake.goals.wished == []
            await press(pilot, "enter")
            assert fake.goals.wished == [GoalRequest("all-user", "minilm", 40, 3, "auto")]

    async def test_mistakes_do_not_start(self) -> None:
        """A number that is none is told, and an embedder that is not here with what to do; enter starts nothing."""
        fake = clustered()
        async with opened(fake, mode="5") as pilot:
            await press(pilot, "r", "down", "down", *"many", "enter")
            await until(pilot, lambda: "clusters: a whole number from 2 on" in text(pilot))
            assert fake.goals.wished == []
            await press(pilot, *["backspace"] * 4, "up", *"nowhere")
            await until(pilot, lambda: "There is no embedder nowhere." in text(pilot))
            await press(pilot, "escape")
            assert fake.goals.wished == []

    async def test_assign_and_stability(self) -> None:
        """a assigns what came later, b measures stability."""
        fake = clustered()
        async with opened(fake, mode="5") as pilot:
            await press(pilot, "a", "b")
            assert fake.goals.started == ["assign", "stability"]


class TestElsewhere:
    async def test_export(self) -> None:
        """X asks what and where, and says how many lines were written."""
        fake = clustered()
        async with opened(fake, mode="5") as pilot:
            await press(pilot, "X", "down", "enter", "enter")
            assert "assignments.jsonl" in text(pilot)
            assert fake.exports.written["assignments.jsonl"][0] == "assignments"

    async def test_copy(self) -> None:
        """y copies the list as lines with tabs."""
        async with opened(clustered(), mode="5") as pilot:
            await press(pilot, "y")
            copied = pilot.app.clipboard.split("\n")
            assert copied[0].startswith("goal\tsize")
            assert copied[1].startswith(f"{LABELS[0]}\t7\t")
            assert "Copied the list, 7 goals" in text(pilot)

    async def test_overview(self) -> None:
        """The overview shows the largest goals and says that proposals wait; enter goes to the desk."""
        fake = clustered()
        async with opened(fake, (120, 36), mode="1") as pilot:
            assert "7 goals" in text(pilot)
            assert LABELS[3] in text(pilot)
            likely = fake.goals.progress().likely
            assert f"{likely} merge proposals wait for you" in text(pilot)
