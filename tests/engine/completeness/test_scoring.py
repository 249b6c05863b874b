"""Boundary scores on a toy model whose probabilities are known exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import Cancelled, ModelError
from engine.completeness.boundaries import BoundaryReading, QuestionTokens
from engine.completeness.packing import PREFIX_SEQUENCE, Segment
from engine.completeness.scoring import BoundaryScorer
from engine.model.interface import Capacity, Span
from tests.engine.model.toy import END, ROOMY, ToyModel, log_prob, next_logits

HEADER = (10, 84)
INLINE = QuestionTokens((), (END,), HEADER)
QUESTIONS = {
    "inline": INLINE,
    "inline, one token of header": QuestionTokens((), (END,), (10,)),
    "text tag": QuestionTokens((), (60, 69, 62), HEADER),
    "text tag and one token": QuestionTokens((), (60, 69), (10,)),
    "question": QuestionTokens((63, 63), (89,), (78,)),
    "question, longer answers": QuestionTokens((63,), (89, 69, 83), (78, 79)),
}


def known(segment: Segment, asked: QuestionTokens) -> list[tuple[float, float]]:
    """The probabilities at the marks, computed one by one from the definition."""
    readings = []
    for mark in segment.marks:
        prefix = [*segment.tokens[:mark], *asked.suffix]
        readings.append((log_prob(prefix, asked.end), log_prob(prefix, asked.continuation)))
    return readings


def values(scored: list[list[BoundaryReading]]) -> list[list[tuple[float, float]]]:
    """The two probabilities of each reading."""
    return [[(r.log_end, r.log_continue) for r in readings] for readings in scored]


def check(model: ToyModel, segments: list[Segment], asked: QuestionTokens) -> None:
    """Asserts that a scorer gives the probabilities of the definition, and leaves only its prefix in the cache."""
    scored = values(BoundaryScorer(model).score(segments, asked))
    for segment, readings in zip(segments, scored, strict=True):
        for reading, expected in zip(readings, known(segment, asked), strict=True):
            assert reading == pytest.approx(expected, abs=1e-9)
    model.check_empty(but=frozenset({PREFIX_SEQUENCE}))


def made(steps: list[list[int]]) -> Segment:
    """A log: each step after the first begins with the header; the end of each is a mark."""
    tokens: list[int] = []
    marks = []
    for number, step in enumerate(steps):
        tokens += [*(HEADER if number else ()), *step]
        marks.append(len(tokens))
    return Segment(tokens, tuple(marks))


@st.composite
def logs(draw: st.DrawFn) -> list[Segment]:
    """Logs over few letters, so that some share prefixes, some of them long."""
    openings = draw(st.lists(st.lists(st.integers(1, 3), max_size=40), min_size=1, max_size=3))
    segments = []
    for _ in range(draw(st.integers(1, 9))):
        rest = st.lists(st.integers(1, 3), min_size=1, max_size=12)
        steps = draw(st.lists(rest, min_size=1, max_size=5))
        segments.append(made([[*draw(st.sampled_from(openings)), *steps[0]], *steps[1:]]))
    return segments


capacities = st.builds(
    lambda batch, rows, sequences: Capacity(
        context=160,
        cells=160 + 4 * batch,
        batch=batch,
        rows=rows,
        sequences=sequences,
        forkable=True,
    ),
    st.integers(8, 48),
    st.integers(6, 12),
    st.integers(4, 12),
)


NAMES = st.sampled_from(sorted(QUESTIONS))


@settings(max_examples=180)
@given(NAMES, logs(), capacities)
def test_scores_are_the_products_of_probabilities(
    name: str, segments: list[Segment], capacity: Capacity
) -> None:
    """Whichever logs are packed together, and however small batch, rows and sequences are, each mark has the
    probabilities of the definition.
    """
    check(ToyModel(capacity), segments, QUESTIONS[name])


@settings(max_examples=60)
@given(NAMES, logs())
def test_what_is_generated_is_the_most_probable_text(name: str, segments: list[Segment]) -> None:
    """A mark is one where the end is generated if each token of the end tag is the most probable one after those
    before it, and no other."""
    asked = QUESTIONS[name]
    scored = BoundaryScorer(ToyModel(replace(ROOMY, batch=16))).score(segments, asked)
    for segment, readings in zip(segments, scored, strict=True):
        for mark, reading in zip(segment.marks, readings, strict=True):
            before = [*segment.tokens[:mark], *asked.suffix]
            greedy = [
                int(next_logits([*before, *asked.end[:nth]]).argmax())
                for nth in range(len(asked.end))
            ]
            assert reading.generated == (tuple(greedy) == asked.end)


@given(st.lists(logs(), min_size=2, max_size=4), NAMES)
def test_a_prefix_kept_from_an_earlier_block_changes_nothing(
    blocks: list[list[Segment]], name: str
) -> None:
    """Blocks scored one after another give what each gives on a fresh model."""
    small = replace(ROOMY, batch=16)
    scorer = BoundaryScorer(ToyModel(small))
    for block in blocks:
        fresh = BoundaryScorer(ToyModel(small)).score(block, QUESTIONS[name])
        assert values(scorer.score(block, QUESTIONS[name])) == values(fresh)


@settings(max_examples=40, deadline=None)
@given(segments=logs(), capacity=capacities)
def test_each_mark_gets_its_own_hidden_state(segments: list[Segment], capacity: Capacity) -> None:
    """Whatever logs are packed together, the state at a mark is that of its prefix read alone."""
    found = BoundaryScorer(ToyModel(capacity)).score(segments, replace(INLINE, states=True))
    for segment, readings in zip(segments, found, strict=True):
        for mark, reading in zip(segment.marks, readings, strict=True):
            alone = ToyModel()
            alone.keep_states(True)
            alone.decode([Span(segment.tokens[:mark], 0, (0,), (mark - 1,))])
            assert reading.state is not None
            assert reading.state.tolist() == alone.hidden_states()[0].tolist()


class TestSharing:
    def test_a_shared_prefix_is_decoded_once_for_all_blocks(self) -> None:
        """Ten logs under one long prompt in two blocks decode the prompt once."""
        model = ToyModel()
        prompt = [5] * 512
        segments = [made([[*prompt, 1, number]]) for number in range(1, 6)]
        scorer = BoundaryScorer(model)
        told: list[int] = []
        scorer.score(segments, INLINE, told.append)
        scorer.score(segments, INLINE, told.append)
        own = len(segments[0].tokens) - len(prompt) + len(HEADER) - 1
        assert model.decoded == len(prompt) + 2 * len(segments) * own
        assert sum(told) == model.decoded


class TestLimits:
    def test_a_recurrent_model_answers_what_needs_no_fork(self) -> None:
        """A model that can be forked at its end only scores logs inline, shared prefixes included."""
        prompt = [5] * 256
        segments = [made([[*prompt, 1], [2]]), made([[*prompt, 3], [1]]), made([[4], [4]])]
        check(ToyModel(replace(ROOMY, forkable=False)), segments, INLINE)

    def test_a_recurrent_model_refuses_questions(self) -> None:
        """A question that needs forks is refused before anything is decoded."""
        model = ToyModel(replace(ROOMY, forkable=False))
        with pytest.raises(ModelError, match="recurrent"):
            BoundaryScorer(model).score([made([[1]])], QUESTIONS["question"])
        assert model.decoded == 0

    def test_a_log_that_goes_on_otherwise_is_refused(self) -> None:
        """A log in which a mark is not followed by the header is an error: the inline probability would be of something
        else.
        """
        with pytest.raises(ModelError, match="does not continue"):
            BoundaryScorer(ToyModel()).score([Segment([1, 2, 3, 10], (2, 4))], INLINE)

    @pytest.mark.parametrize("number", [1, 4])
    def test_cancelled_at_any_decode(self, number: int) -> None:
        """After a cancel the same scorer scores the same block right."""
        model = ToyModel(replace(ROOMY, batch=32))
        segments = [made([[*([6] * 40), n], [n, n]]) for n in range(1, 5)]
        scorer = BoundaryScorer(model)
        model.cancel_after = number
        with pytest.raises(Cancelled):
            scorer.score(segments, QUESTIONS["question"])
        model.check_empty()
        expected = [known(segment, QUESTIONS["question"]) for segment in segments]
        for readings, right in zip(
            values(scorer.score(segments, QUESTIONS["question"])), expected, strict=True
        ):
            assert [x for pair in readings for x in pair] == pytest.approx(
                [x for pair in right for x in pair], abs=1e-9
            )
