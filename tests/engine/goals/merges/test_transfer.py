"""Transfer of decisions to another clustering by members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.goals.merges.merge_state import MergeState, replay
from engine.goals.merges.transfer import PARTS_TOGETHER, SPREAD, transfer_decisions
from engine.goals.records import GoalDecision
from tests.engine.goals.clustered import groups_of
from tests.engine.goals.merges.test_merge_state import acts, base, decided, tried

FIRST_NEW = 100
"""Id of the first decision on the new desk."""


def taken_over(
    decisions: Sequence[GoalDecision], new: MergeState, old: MergeState | None = None
) -> tuple[MergeState, list[GoalDecision], dict[int, str]]:
    """The new state after the transfer of decisions, the transferred decisions, and those that were lost with the
    reason.
    """
    state = new.copy()
    made: list[GoalDecision] = []
    carrying = transfer_decisions(replay(old or base(), decisions), decisions, state)
    while True:
        try:
            wanted = next(carrying)
        except StopIteration as end:
            return state, made, end.value
        number = FIRST_NEW + len(made)
        made.append(replace(state.complete(wanted), id=number, act=FIRST_NEW))
        state.apply(made[-1])


SAME = MergeState.of_clusters({9: [1, 2, 3, 4], 8: [5, 6, 7], 7: [8, 9], 6: [10]}, [11, 12])
"""The clusters of `base` under other numbers."""
FINER = MergeState.of_clusters({0: [1, 2], 1: [3, 4, 12], 2: [5, 6, 7], 3: [8, 9, 10]}, [11])
"""The first cluster in two, the last two in one."""


class TestTheSameClusters:
    def test_everything_is_there_again(self) -> None:
        """Merges with labels, refusals, names, pins and moves are transferred under new ids, with the id of their
        source.
        """
        state, made, lost = taken_over(
            [
                decided(1, "merge", "c0", "c1", name="both"),
                decided(2, "apart", "d1", "c2"),
                decided(3, "never", "c2", "c3"),
                decided(4, "rename", "c2", name="two"),
                decided(5, "pin", "c3"),
                decided(6, "move", "c2", parts=[[11]]),
            ],
            SAME,
        )
        assert groups_of(state) == {
            "d100": [1, 2, 3, 4, 5, 6, 7], "c7": [8, 9, 11], "c6": [10], None: [12]
        }  # fmt: skip
        assert state.groups["d100"].label == "both"
        assert state.groups["c7"].label == "two"
        assert state.groups["c6"].pinned
        assert state.is_kept_apart("d100", "c7")
        assert ("c6", "c7") in state.forbidden
        assert sorted(decision.source_id or 0 for decision in made) == [1, 2, 3, 4, 5, 6]
        assert lost == {}

    def test_what_rules_decided(self) -> None:
        """Decisions of rules and models are not transferred; a person's merge is, although a rule merged its result
        further.
        """
        state, made, lost = taken_over(
            [
                decided(1, "merge", "c0", "c1", name="person"),
                decided(2, "merge", "d1", "c2", author="auto"),
                decided(3, "apart", "d2", "c3", author="llm"),
            ],
            SAME,
        )
        assert [decision.source_id for decision in made] == [1]
        assert state.groups["d100"].label == "person"
        assert state.members("d100").tolist() == [1, 2, 3, 4, 5, 6, 7]
        assert lost == {}

    def test_a_refusal_of_what_was_merged_since(self) -> None:
        """A refusal of a group that was merged since is not transferred; a final one is, to the group that has its
        members.
        """
        state, _, _ = taken_over(
            [
                decided(1, "apart", "c0", "c3"),
                decided(2, "never", "c0", "c2"),
                decided(3, "merge", "c0", "c1"),
            ],
            SAME,
        )
        assert not state.is_kept_apart("d100", "c6")
        assert state.is_kept_apart("d100", "c7")


class TestOtherClusters:
    def test_a_name_goes_home(self) -> None:
        """A label goes to the group with more than half of the members; where none has, it is kept for a later
        clustering.
        """
        names = [decided(1, "rename", "c1", name="one"), decided(2, "rename", "c0", name="zero")]
        state, _, lost = taken_over(names, FINER)
        assert state.groups["c2"].label == "one"
        assert [g.label for g in state.groups.values()].count("zero") == 0
        assert lost == {2: SPREAD}

    def test_a_theme_goes_home(self) -> None:
        """A goal that a person put under a theme, or under none, stays there; what the program put there does not."""
        themes = [
            decided(1, "theme", "c1", name="travel"),
            decided(2, "theme", "c0", name="money"),
            decided(3, "theme", "c3", name="food", author="auto"),
        ]
        state, made, lost = taken_over(themes, FINER)
        assert state.groups["c2"].theme == "travel"
        assert len(made) == 1
        assert lost == {2: SPREAD}

    def test_a_split(self) -> None:
        """A split is not needed where its parts are in different groups, and kept for a later clustering where they are
        in one.
        """
        split = [decided(1, "split", "c0", parts=[[1, 2]])]
        assert taken_over(split, FINER)[1:] == ([], {})
        assert taken_over(split, SAME)[1:] == ([], {1: PARTS_TOGETHER})


@settings(max_examples=40)
@given(acts(), st.lists(st.integers(-1, 4), min_size=14, max_size=14))
def test_any_decisions_on_any_clustering(
    wanted: list[tuple[str, int, int, list[int]]], numbers: list[int]
) -> None:
    """A transfer never fails and loses no conversation; a final refusal is either lost with a reason or in force
    between groups with members of its sides.
    """
    old = base()
    given_: list[GoalDecision] = []
    for number, act in enumerate(wanted, 1):
        decision = tried(old, number, act)  # type: ignore[arg-type]
        try:
            old.apply(decision)
        except UsageError:
            continue
        given_.append(decision)
    members: dict[int, list[int]] = {}
    for conversation, cluster in enumerate(numbers, 1):
        members.setdefault(cluster, []).append(conversation)
    outliers = members.pop(-1, [])
    new = MergeState.of_clusters(members, outliers)
    state, made, lost = taken_over(given_, new)
    assert sorted(key for ids in groups_of(state).values() for key in ids) == list(range(1, 15))
    assert set(lost) <= {decision.id for decision in given_}
    assert {decision.source_id for decision in made} <= {decision.id for decision in given_}
    for decision in given_:
        if decision.kind != "never" or decision.id in lost:
            continue
        first, second = (set(old.members(side).tolist()) for side in decision.sides)
        assert any(
            (first & one and second & other) or (first & other and second & one)
            for a, b in state.forbidden
            for one, other in [(set(state.members(a).tolist()), set(state.members(b).tolist()))]
        )
