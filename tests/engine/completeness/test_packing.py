"""The plan in which order and groups segments are decoded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.completeness.packing import Group, Segment, plan_groups

CHUNK = 4


@st.composite
def segment_lists(draw: st.DrawFn) -> list[Segment]:
    """Segments over two letters, so that many share prefixes of some chunks."""
    segments = []
    for _ in range(draw(st.integers(0, 12))):
        tokens = draw(st.lists(st.integers(0, 1), min_size=1, max_size=14))
        marks = draw(st.sets(st.integers(1, len(tokens)), min_size=1))
        segments.append(Segment(tokens, tuple(sorted(marks))))
    return segments


@given(segment_lists())
def test_groups(segments: list[Segment]) -> None:
    """Every segment is in one group; the members of a group share whole chunks that end before the first mark
    of each.
    """
    groups = plan_groups(segments, CHUNK)
    assert sorted(i for group in groups for i in group.members) == list(range(len(segments)))
    for group in groups:
        assert group.shared % CHUNK == 0
        assert list(group.members) == sorted(group.members)
        prefixes = {tuple(segments[i].tokens[: group.shared]) for i in group.members}
        assert len(prefixes) == 1
        assert all(group.shared < segments[i].marks[0] for i in group.members)


def test_a_shared_prompt_is_shared() -> None:
    """Conversations under one system prompt are one group; a conversation with another prompt comes before
    them, alone.
    """
    prompt = [7, 7, 7, 7, 8, 8, 8, 8]
    segments = [
        Segment([*prompt, 1, 1], (10,)),
        Segment([9, 9, 9, 9, 9, 9], (6,)),
        Segment([*prompt, 2, 2, 2], (9, 11)),
    ]
    assert plan_groups(segments, CHUNK) == [Group(0, (1,)), Group(8, (0, 2))]


def test_the_question_is_never_inside_what_is_shared() -> None:
    """The shared prefix ends before the first mark, because a mark's distribution is read when its token is decoded."""
    one, other = Segment([1] * 12, (8, 12)), Segment([1] * 12, (12,))
    assert plan_groups([one, other], CHUNK) == [Group(4, (0, 1))]
