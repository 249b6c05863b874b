"""The state of the merge desk as a pure function of decisions: always a partition, and as before after an undo."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.goals.merges.merge_state import MergeState, replay
from engine.goals.records import Author, DecisionKind, GoalDecision
from tests.engine.goals.clustered import groups_of

MEMBERS = {0: [1, 2, 3, 4], 1: [5, 6, 7], 2: [8, 9], 3: [10]}
OUTLIERS = [11, 12]
EVERYONE = list(range(1, 13))


def base() -> MergeState:
    """Four clusters of four, three, two and one, and two outliers."""
    named = {f"c{n}": (f"label {n}", f"They want {n}.", None) for n in MEMBERS}
    return MergeState.of_clusters(MEMBERS, OUTLIERS).named(named)


def decided(
    number: int,
    kind: DecisionKind,
    *sides: str,
    parts: list[list[int]] | None = None,
    name: str = "",
    author: Author = "human",
) -> GoalDecision:
    """A decision with this id."""
    return GoalDecision(
        kind,
        sides,
        ((name, ""),) if name else (),
        tuple(array("q", part) for part in parts or ()),
        author,
        id=number,
        act=number,
    )


def after(*decisions: GoalDecision) -> MergeState:
    """The merge state after decisions."""
    return replay(base(), decisions)


def check_partition(state: MergeState) -> None:
    """Asserts that every conversation is in exactly one group or an outlier, that the sizes are right, and that no two
    groups have one label."""
    assert len({state.groups[key].label for key in state.current}) == len(state.current)
    found = groups_of(state)
    assert sorted(key for ids in found.values() for key in ids) == EVERYONE
    assert all(found[key] for key in state.current)
    assert {key: len(found[key]) for key in state.current} == {
        key: state.groups[key].size for key in state.current
    }


def test_a_group_without_a_common_request_is_in_no_proposal() -> None:
    """What the rule named as one without a common request is proposed with nothing, until a person names it."""
    rest = replace(
        decided(1, "rename", "c0", name="Other requests", author="auto"), evidence={"rest": True}
    )
    assert not any("c0" in pair for pair in after(rest).open_pairs())
    state = after(rest, decided(2, "rename", "c0", name="pay"))
    assert any("c0" in pair for pair in state.open_pairs())


class TestMerging:
    def test_a_name_that_nobody_gave(self) -> None:
        """Without a label the merged group gets that of the larger side, or of a pinned side, and stays pinned."""
        assert after(decided(1, "merge", "c2", "c1")).groups["d1"].label == "label 1"
        state = after(decided(1, "pin", "c2"), decided(2, "merge", "c1", "c2"))
        assert state.groups["d2"].label == "label 2"
        assert state.groups["d2"].pinned

    @pytest.mark.parametrize("sides", [("c0", "c0"), ("c0",), ("c0", "c9"), ("c0", "d5")], ids=str)
    def test_what_cannot_be_merged(self, sides: tuple[str, ...]) -> None:
        """A merge of a group with itself, or with a former group, is refused and leaves the state unchanged."""
        state = base()
        with pytest.raises(UsageError):
            state.apply(decided(1, "merge", *sides))
        assert groups_of(state) == groups_of(base())

    @pytest.mark.parametrize("kind", ["apart", "never", "pin"])
    def test_a_person_outranks_a_rule(self, kind: DecisionKind) -> None:
        """An automatic rule merges neither what a person refused nor what a person pinned; a person may."""
        sides = ("c0",) if kind == "pin" else ("c0", "c1")
        state = after(decided(1, kind, *sides))
        with pytest.raises(UsageError, match="A person"):
            state.apply(decided(2, "merge", "c0", "c1", author="auto"))
        state.apply(decided(2, "merge", "c0", "c1"))
        assert state.members("d2").tolist() == [1, 2, 3, 4, 5, 6, 7]


class TestRefusing:
    def test_a_pair_kept_apart(self) -> None:
        """A refused pair is no longer proposed, in either order; other pairs are."""
        state = after(decided(1, "apart", "c2", "c0"))
        assert state.open_pairs() == [("c0", "c1"), ("c0", "c3"), ("c1", "c2"), ("c1", "c3"), ("c2", "c3")]  # fmt: skip
        assert state.is_kept_apart("c0", "c2")

    def test_a_merged_goal_stays_under_a_theme(self) -> None:
        """A merged goal is under the theme of its larger part, or of the part that a person placed; parts of a split
        are under the theme of the whole."""
        rule = decided(1, "theme", "c0", name="travel", author="auto")
        merge = decided(3, "merge", "c0", "c1")
        assert after(rule, merge).groups["d3"].theme == "travel"
        person = decided(2, "theme", "c1", name="money")
        split = decided(4, "split", "d3", parts=[[1, 2]])
        state = after(rule, person, merge, split)
        assert {state.groups[key].theme for key in ("d3", "d4", "d4.1")} == {"money"}


class TestSplitting:
    def test_parts_and_the_rest(self) -> None:
        """A split makes groups of the named parts and of the rest; the split group leads to its largest part."""
        state = after(decided(7, "split", "c0", parts=[[2], [4]]))
        assert groups_of(state) == {
            "c1": [5, 6, 7], "c2": [8, 9], "c3": [10], "d7": [2], "d7.1": [4], "d7.2": [1, 3],
            None: [11, 12],
        }  # fmt: skip
        assert state.current_of("c0") == "d7.2"
        assert [state.groups[key].label for key in ("d7", "d7.2")] == ["label 0 (1)", "label 0 (3)"]
        # Where only latecomers are in no part, these are no part either, though their texts were named.
        split = decided(7, "split", "c0", parts=[[1, 2], [3, 4]])
        state = after(replace(split, names=(("bills", ""), ("rent", ""), ("late", ""))))
        assert [state.groups[key].label for key in ("d7", "d7.1")] == ["bills", "rent"]

    def test_a_free_label(self) -> None:
        """A part whose label another group has gets the next number; so does a group that a person named as one that
        an undo brings back."""
        other = decided(1, "rename", "c1", name="bills (2)")
        split = decided(2, "split", "c0", parts=[[1]])
        split = replace(split, names=(("bills", ""), ("bills (2)", "")))
        assert base().complete(split).names == split.names
        state = after(other, split)
        assert [state.groups[key].label for key in ("d2", "d2.1")] == ["bills", "bills (3)"]
        merge, rename = decided(3, "merge", "c2", "c3"), decided(4, "rename", "c1", name="label 3")
        assert after(merge, rename).groups["c1"].label == "label 3"
        assert after(rename).groups["c1"].label == "label 3 (2)"
        alike = base().named(dict.fromkeys(("c0", "c1"), ("bills", "", None)))
        assert replay(alike, [decided(1, "pin", "c0")]).groups["c0"].label == "bills"

    @pytest.mark.parametrize(
        "parts",
        [[[1, 2, 3, 4]], [], [[1], [1, 2]], [[1], [5]], [[]], [[1, 11]]],
        ids=["all in one", "none", "twice", "of another group", "an empty part", "an outlier"],
    )
    def test_parts_that_are_none(self, parts: list[list[int]]) -> None:
        """Invalid parts of a split are refused and leave the state unchanged."""
        state = base()
        with pytest.raises(UsageError):
            state.apply(decided(1, "split", "c0", parts=parts))
        assert groups_of(state) == groups_of(base())


class TestMoving:
    def test_between_groups_and_outliers(self) -> None:
        """A move takes conversations out of their group or the outliers; groups keep their ids and refusals."""
        state = after(
            decided(1, "never", "c0", "c1"),
            decided(2, "move", "c1", parts=[[1, 8, 11]]),
            decided(3, "move", parts=[[2]]),
        )
        assert groups_of(state) == {
            "c0": [3, 4], "c1": [1, 5, 6, 7, 8, 11], "c2": [9], "c3": [10], None: [2, 12]
        }  # fmt: skip
        assert state.is_kept_apart("c0", "c1")
        assert state.changed_by_moves == {"c0", "c1", "c2"}


class TestAsking:
    def test_the_key_of_a_pair(self) -> None:
        """The key of a pair depends on the members alone: not on group ids or order; a move changes it, its undo
        restores it.
        """
        state = base()
        key = state.sides_key("c0", "c1")
        assert key == state.sides_key("c1", "c0")
        assert key != after(decided(1, "move", "c1", parts=[[1]])).sides_key("c0", "c1")
        other = MergeState.of_clusters({5: [5, 6, 7], 9: [1, 2, 3, 4]})
        assert other.sides_key("c5", "c9") == key
        assert key != state.sides_key("c0", "c2")


def test_in_words() -> None:
    """Each kind of decision is described with the labels that its groups had at the time."""
    state = after(decided(1, "rename", "c0", name="bills"))
    cases = (
        decided(2, "merge", "c0", "c1", name="pay"),
        decided(2, "apart", "c0", "c1"),
        decided(2, "never", "c0", "c1"),
        decided(2, "split", "c0", parts=[[1]]),
        decided(2, "move", "c0", parts=[[5]]),
        decided(2, "move", parts=[[5, 6]]),
        decided(2, "rename", "c0", name="pay"),
        decided(2, "pin", "c0"),
        decided(2, "unpin", "c0"),
    )
    texts = [state.complete(case).text for case in cases]
    assert texts == [
        "merged “bills” and “label 1” into “pay”",
        "kept “bills” and “label 1” apart",
        "kept “bills” and “label 1” apart for good",
        "split “bills” into 2",
        "moved 1 conversation to “bills”",
        "moved 2 conversations to the outliers",
        "renamed “bills” to “pay”",
        "pinned “bills”",
        "unpinned “bills”",
    ]
    row = replace(state.complete(decided(2, "split", "c0", parts=[[1]])), source_id=9)
    assert (row.made_groups, row.transferred, row.active) == (("d2", "d2.1"), True, True)


@st.composite
def acts(draw: st.DrawFn) -> list[tuple[DecisionKind, int, int, list[int]]]:
    """Random decisions: a kind, two indices into the list of groups, and conversations; few of them are valid."""
    kinds: list[DecisionKind] = [
        "merge", "apart", "never", "split", "move", "rename", "pin", "unpin",
    ]  # fmt: skip
    place = st.integers(0, 6)
    some = st.lists(st.sampled_from([*EVERYONE, 98, 99]), unique=True, max_size=5)
    return draw(st.lists(st.tuples(st.sampled_from(kinds), place, place, some), max_size=25))


def tried(
    state: MergeState, number: int, act: tuple[DecisionKind, int, int, list[int]]
) -> GoalDecision:
    """The decision of such a draw on the groups at these indices."""
    kind, first, second, some = act
    keys = list(state.current)
    a, b = keys[first % len(keys)], keys[second % len(keys)]
    if kind == "split":
        mine = state.members(a).tolist()
        return decided(number, kind, a, parts=[mine[: len(mine) // 2], some][: 1 + first % 2])
    if kind == "move":
        return decided(number, kind, *([a] if first else []), parts=[some])
    if kind in ("rename", "pin", "unpin"):
        return decided(number, kind, a, name="x" if kind == "rename" else "")
    return decided(number, kind, a, b)


@settings(max_examples=40)
@given(acts())
def test_whatever_is_decided(wanted: list[tuple[DecisionKind, int, int, list[int]]]) -> None:
    """After any decisions, valid or not, everyone is in exactly one place; a refused one changes nothing; replaying the
    others gives the same state, and replaying none the clusters.
    """
    state = base()
    given_: list[GoalDecision] = []
    for number, act in enumerate(wanted, 1):
        decision = tried(state, number, act)
        before = groups_of(state), state.open_pairs(), dict(state.latecomers), dict(state.successor)
        try:
            state.apply(decision)
        except UsageError:
            assert before == (
                groups_of(state),
                state.open_pairs(),
                state.latecomers,
                state.successor,
            )
            continue
        state.end_act()
        given_.append(decision)
        check_partition(state)
        assert (f"d{number}" in state.current) == (decision.kind in ("merge", "split"))
    start = base()
    again = replay(start, given_)
    assert groups_of(again) == groups_of(state)
    assert [again.groups[key].label for key in again.current] == [
        state.groups[key].label for key in state.current
    ]
    assert again.open_pairs() == state.open_pairs()
    assert groups_of(start) == groups_of(base())
    # undoing takes the newest first: what is left is what stood before it
    for count in range(len(given_), -1, -1):
        check_partition(replay(start, given_[:count]))
