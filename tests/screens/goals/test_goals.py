"""The goals: groups with their figures, their members, the drift of their shares."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from engine.base.events import JobProgress
from engine.conversations.filters import ListQuery, parse_filter
from engine.goals.clustering_request import ClusteringRequest
from screens.conversations.screen import ConversationsBehindScreen
from screens.goals.drift_screen import GoalDriftScreen
from screens.goals.members_screen import GoalMembersScreen
from screens.goals.run_form import GoalRunForm
from screens.goals.screen import DetailPane, GoalsScreen
from screens.reader import ReaderScreen
from screens.triage.screen import TriageScreen
from screens.widgets.filter_line import FilterInput
from tests.screens.conversations.listing import filtered
from tests.screens.driving import lines, opened, press, text, until
from tests.screens.goals.goal_project import (
    LABELS,
    MEMBERS,
    OUTLIERS,
    STABILITY,
    clustered,
    group_id,
    kinds,
)


def listed(pilot: Pilot[None]) -> list[str]:
    """The labels of the list, from the top."""
    screen = pilot.app.screen
    assert isinstance(screen, GoalsScreen)
    return [group.label for group in screen.table.items]


def members_screen(pilot: Pilot[None]) -> GoalMembersScreen:
    """The screen in front, which lists members."""
    screen = pilot.app.screen
    assert isinstance(screen, GoalMembersScreen)
    return screen


def in_front(pilot: Pilot[None], kind: type[Screen[Any]]) -> bool:
    """Whether a screen of this kind is in front."""
    return isinstance(pilot.app.screen, kind)


class TestList:
    async def test_largest_first(self) -> None:
        """Groups are listed by size with share, completeness and stability; the summary counts what is in none, and
        those that are unstable under resampling, which are marked."""
        async with opened(clustered(), (160, 40), mode="5") as pilot:
            assert listed(pilot) == LABELS
            summary = lines(pilot)[1]
            assert "7 goals of 32 conversations" in summary
            assert "3 outliers" in summary
            row = next(line for line in lines(pilot) if line.startswith(f" {LABELS[0][:16]}"))
            assert "7" in row
            assert "%" in row
            assert f"▲ {sum(value < 0.6 for value in STABILITY)} unstable" in text(pilot)
            row = next(line for line in lines(pilot) if line.startswith(f" {LABELS[2]}"))
            assert "▲ .50" in row

    async def test_order_and_detail(self) -> None:
        """s asks for an order; v shows the group under the cursor on a narrow terminal."""
        async with opened(clustered(), (80, 24), mode="5") as pilot:
            await press(pilot, "s", "home", "enter")
            assert listed(pilot) == sorted(LABELS)
            assert "Users want" not in text(pilot)
            await press(pilot, "v")
            assert "Users want" in text(pilot)

    async def test_what_failed(self) -> None:
        """Where outcomes are known, a narrow terminal has the numbers of failed ones too, beside whole names of themes,
        and `s` orders by them."""
        support = clustered()
        support.merge_review.place(
            [group_id(support, LABELS[0])], "Exchange a lamp, repair a chair"
        )
        screen_groups = support.goals.groups()
        for key in support.goals.view().members(screen_groups[2].id).tolist()[:2]:
            support.triage.give(key, "no")
        async with opened(support, (80, 24), mode="5") as pilot:
            header = next(line for line in lines(pilot) if "size" in line)
            assert "ended" in header
            assert "failed" in header
            row = next(line for line in lines(pilot) if line.startswith(f" {LABELS[2][:16]}"))
            assert "  2 of 2  ▇" in row
            assert "- Exchange a lamp, repair a chair " in text(pilot)
            await press(pilot, "s")
            assert "share that failed, highest first" in text(pilot)
            await press(pilot, "end", "up", "up", "enter")
            assert listed(pilot)[0] == LABELS[2]

    async def test_themes_are_a_tree(self) -> None:
        """Goals stand below their theme, which - folds and + unfolds; t puts a goal under it, e renames the theme, u
        takes both back. Beside a theme stand its goals in the list, with the counts there: under a filter, of what
        matches."""
        services = clustered()
        services.merge_review.place([group_id(services, LABELS[n]) for n in (0, 2)], "Lamps")
        async with opened(services, (160, 40), mode="5") as pilot:
            assert listed(pilot)[:3] == ["Lamps", LABELS[0], LABELS[2]]
            await press(pilot, "minus")
            assert listed(pilot)[:2] == ["Lamps", LABELS[1]]
            await press(pilot, "down", "t", "enter", "up")
            assert "3" in lines(pilot)[3]
            await press(pilot, "plus")
            assert listed(pilot)[:4] == ["Lamps", *LABELS[:3]]
            await press(pilot, "u")
            assert listed(pilot)[:3] == ["Lamps", LABELS[0], LABELS[2]]
            await press(pilot, "J")
            assert in_front(pilot, TriageScreen)
            await press(pilot, "escape")
            await filtered(pilot, f'goal:"{LABELS[2]}"')
            await press(pilot, "home")
            detail = pilot.app.screen.query_one(DetailPane).query_one("#about", Static).content
            assert f"4  {LABELS[2]}" in str(detail)
            assert LABELS[0] not in str(detail)
            await press(pilot, "escape", "u")
            assert "Undone: put 2 groups under themes." in text(pilot)


class TestDecisions:
    async def test_merge_by_hand(self) -> None:
        """m asks for the other group, shows the evidence, and merges under the label that is written; e renames the
        group under the cursor, p pins it, D splits it after a preview."""
        support = clustered()
        async with opened(support, mode="5") as pilot:
            await press(pilot, "m", *"return", "enter")
            assert "Merge by hand" in text(pilot)
            assert "merge  ▇" in text(pilot)
            await press(pilot, *"Lamps", "enter")
            assert listed(pilot)[0] == "Lamps"
            await press(pilot, "u")
            assert sorted(listed(pilot)) == sorted(LABELS)
            await press(pilot, "home", "e", *"Lights", "enter")
            assert listed(pilot)[0] == "Lights"
            await press(pilot, "p")
            assert "◉ Lights" in text(pilot)
            await press(pilot, "D", "enter")
            assert kinds(support) == ["rename", "pin", "split"]
            assert len(listed(pilot)) == 8


class TestMembers:
    async def test_reading_members(self) -> None:
        """Enter lists the members, enter there opens the reader; afterwards the cursor is on what was read last. o
        lists the doubtful ones first; O in the list of goals those in no group."""
        async with opened(clustered(), mode="5") as pilot:
            await press(pilot, "enter")
            members = members_screen(pilot)
            assert sorted(members.table.ids) == MEMBERS[LABELS[0]]
            await press(pilot, "enter")
            assert in_front(pilot, ReaderScreen)
            await press(pilot, "right", "right", "escape")
            assert in_front(pilot, GoalMembersScreen)
            assert members.table.cursor_index == 2
            await press(pilot, "o", "down", "enter")
            assert "most doubtful first" in lines(pilot)[1]
            doubts = [round(row.doubt, 5) for row in members._fetch(members.table.ids)]
            assert doubts == sorted(doubts, reverse=True)
            await press(pilot, "q")
            assert isinstance(pilot.app.screen, GoalsScreen)
            await press(pilot, "O")
            assert sorted(members_screen(pilot).table.ids) == OUTLIERS

    async def test_moving_and_splitting_off(self) -> None:
        """Marked members move to another group together, or are split off; u undoes it."""
        support = clustered()
        async with opened(support, mode="5") as pilot:
            await press(pilot, "enter", "space", "space")
            assert "2 marked" in text(pilot)
            await press(pilot, "v", *"files", "enter")
            assert "Moved 2 conversations" in text(pilot)
            files = support.goals.members(group_id(support, "Count files"))
            assert len(files) == len(MEMBERS["Count files"]) + 2
            await press(pilot, "u", "space", "S")
            assert isinstance(pilot.app.screen, GoalsScreen)
            assert kinds(support) == ["split"]


class TestViews:
    async def test_drift(self) -> None:
        """d lists the groups by how their shares changed; enter lists the months of one and the conversations of such a
        month."""
        support = clustered()
        async with opened(support, mode="5") as pilot:
            await press(pilot, "d")
            assert "2026-09 to 2026-10" in lines(pilot)[1]
            drift = pilot.app.screen
            assert isinstance(drift, GoalDriftScreen)
            ps = [row.p for row in drift.table.items]
            assert len(ps) > 1
            assert ps == sorted(ps)
            assert all(0 <= p <= 1 for p in ps)
            await press(pilot, "enter", "enter")
            behind = pilot.app.screen
            assert isinstance(behind, ConversationsBehindScreen)
            await until(pilot, lambda: len(behind.table.ids) > 0)
            row, *_ = drift.table.items
            assert list(behind.table.ids) == [
                row.id
                for row in support.conversations.rows(MEMBERS[row.label])
                if row.created_at and row.created_at.startswith("2026-09")
            ]
            await press(pilot, "escape")
            assert in_front(pilot, GoalDriftScreen)
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, GoalsScreen)

    async def test_a_filter_counts_only_what_matches(self) -> None:
        """Under a filter the goals have the sizes, shares and states of what matches; enter opens just these, escape
        takes the filter away."""
        support = clustered()
        wanted = parse_filter("date:2026-10 -state:ended")
        ids = set(support.conversations.ids(ListQuery(wanted)))
        whole = sum(len(ids.intersection(own)) for own in MEMBERS.values())
        groups = support.goals.groups(wanted)
        sizes = {label: len(ids.intersection(own)) for label, own in MEMBERS.items()}
        assert {group.label: group.size for group in groups} == {
            k: v for k, v in sizes.items() if v
        }
        with_text = whole + len(ids.intersection(OUTLIERS))
        assert [group.share for group in groups] == [group.size / with_text for group in groups]
        assert not any(group.states.complete for group in groups)
        async with opened(support, mode="5") as pilot:
            goals = pilot.app.screen
            await press(pilot, "f")
            goals.query_one(FilterInput).value = str(wanted)
            await press(pilot, "enter")
            await until(pilot, lambda: f"of {whole} conversations that match" in text(pilot))
            await press(pilot, "home", "enter")
            behind = pilot.app.screen
            assert isinstance(behind, ConversationsBehindScreen)
            largest = ids.intersection(MEMBERS[groups[0].label])
            await until(pilot, lambda: set(behind.table.ids) == largest)
            await press(pilot, "escape", "escape")
            assert pilot.app.screen is goals
            await until(pilot, lambda: "7 goals of 32 conversations" in text(pilot))


class TestRuns:
    async def test_run(self) -> None:
        """r shows what a run takes before it starts; what is chosen is what runs. A text that is no number, or an
        unknown embedder, is refused with the reason; no run starts."""
        support = clustered()
        async with opened(support, mode="5") as pilot:
            await press(pilot, "r", "down", "down", "down", *"many", "enter")
            await until(pilot, lambda: "it must be a whole number from 1 on" in text(pilot))
            await press(pilot, *["backspace"] * 4, "up", *"nowhere")
            await until(pilot, lambda: "There is no embedder 'nowhere'." in text(pilot))
            await press(pilot, "enter", "escape")
            assert support.jobs.started == []

            await press(pilot, "r")
            form = pilot.app.screen
            assert isinstance(form, GoalRunForm)
            await until(pilot, lambda: "33 conversations · time unknown" in text(pilot))
            await press(pilot, "down", "right", "down", "down", *"40")
            assert "It was 7 for 32 conversations" in text(pilot)
            await press(pilot, "down")
            assert "Every proposed merge waits for your yes or no" in text(pilot)
            await press(pilot, "right", "down", "down", *"3")
            assert form.request() == ClusteringRequest(
                "all-user", "tfidf", 40, seed=3, decide="auto"
            )
            assert support.jobs.started == []
            await press(pilot, "enter")
            await until(pilot, lambda: support.jobs.started != [])
            (stages,) = support.jobs.started
            assert stages == ["embed", "cluster", "decide", "name", "theme"]


class TestElsewhere:
    async def test_overview_while_a_job_runs(self) -> None:
        """A merge that a person decides while a job runs is seen on the overview at once."""
        support = clustered()
        review = support.merge_review
        async with opened(support, (120, 36), mode="1") as pilot:
            support.emit(JobProgress(7, "trees", "Growing", 1, 9, "conversations", None, None, ""))
            assert "7 goals" in text(pilot)
            review.merge(review.pair(*(group_id(support, LABELS[n]) for n in (0, 2))), "Lamps")
            await until(pilot, lambda: "6 goals" in text(pilot))
            assert "11  Lamps" in text(pilot)
