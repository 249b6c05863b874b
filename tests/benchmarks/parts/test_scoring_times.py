"""The scoring benchmark on the toy model: both ways give the same answers, and the baseline does no more than
it should.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from engine.base.errors import ModelError
from engine.completeness.scoring import BoundaryScorer, LogItem, Question
from engine.model.interface import Capacity, Logits, Span
from engine.model.prompt_files import Prompt
from tests.benchmarks.parts.scoring_times import bench_growing, bench_prompts, bench_scoring
from tests.engine.model.toy import ROOMY, ToyModel

BARE = Question(None)
ASKED = Question(Prompt("base", False, "Log:\n", "\n\nDone?", "", " all done", " still", (), 0))
TEXTS = ("TURN 1, STEP 1, user chat:\nhello", "\n\nTURN 1, STEP 2, assistant chat:\nhi there")


class WatchedModel(ToyModel):
    """A toy model that records its batches."""

    def __init__(self, capacity: Capacity = ROOMY) -> None:
        super().__init__(capacity)
        self.batches: list[tuple[int, int]] = []

    def decode(self, spans: Sequence[Span]) -> Logits:
        """Records tokens and wanted rows."""
        self.batches.append((sum(len(s.tokens) for s in spans), sum(len(s.wanted) for s in spans)))
        return super().decode(spans)


def talk(turns: int) -> LogItem:
    """A conversation with this many boundaries."""
    texts = [TEXTS[0], TEXTS[1]]
    for turn in range(2, turns + 1):
        texts.append(f"\n\nTURN {turn}, STEP {turn * 2 - 1}, user chat:\nand {turn}?")
        texts.append(f"\n\nTURN {turn}, STEP {turn * 2}, assistant chat:\nyes {turn}")
    return LogItem(tuple(texts), tuple(range(1, 2 * turns, 2)), 0)


@pytest.mark.parametrize("question", [BARE, ASKED], ids=["tuned", "base"])
def test_both_ways_give_the_same_probabilities(question: Question) -> None:
    """One prompt per boundary gives the probabilities that scoring gives, so their times can be compared."""
    found = bench_prompts(
        BoundaryScorer(ToyModel()), [talk(5), talk(3)], question, 2, math.inf, print
    )
    assert found["boundaries"] == 8
    assert found["largest_difference"] < 1e-12


def test_one_prompt_per_boundary_reads_every_prefix_anew() -> None:
    """The prompts decode every prefix from an empty cache, with one row of logits each."""
    model = WatchedModel()
    bench_prompts(BoundaryScorer(model), [talk(2)], BARE, 1, math.inf, print)
    whole = len(model.tokenize("", start=True)) + len("".join(talk(2).texts).encode())
    first = len(model.tokenize("", start=True)) + len("".join(TEXTS).encode())
    assert model.batches[-2:] == [(first, 1), (whole, 1)]


def test_bare_decoding_is_bare() -> None:
    """The baseline decodes each token once, in full batches with one row of logits each."""
    model = WatchedModel()
    found = bench_scoring(
        BoundaryScorer(model), [[talk(4), talk(6)], [talk(9)]], BARE, 1, math.inf, print
    )
    bare = model.batches[-math.ceil(found["tokens"] / ROOMY.batch) :]
    assert [tokens for tokens, _ in bare[:-1]] == [ROOMY.batch] * (len(bare) - 1)
    assert sum(tokens for tokens, _ in bare) == found["tokens"]
    assert {rows for _, rows in bare} == {1}
    model.check_empty()


def test_the_time_of_forks_is_in_the_figure() -> None:
    """In mode `base` the scorer also decodes question and answers, and the rate is still per token of the log."""
    found = bench_scoring(BoundaryScorer(ToyModel()), [[talk(4)]], ASKED, 1, math.inf, print)
    assert found["decoded_tokens"] > found["tokens"]


def test_each_round_is_a_ratio_of_its_own() -> None:
    """Rounds of both alternate, and the fraction is the median of their ratios."""
    said: list[str] = []
    found = bench_scoring(BoundaryScorer(ToyModel()), [[talk(3)]], BARE, 3, math.inf, said.append)
    assert found["fraction_of_raw"] == sorted(found["fractions"])[1]
    assert len(said) == 3


def test_what_does_not_fit_is_refused() -> None:
    """A conversation that needs windows is refused, because it would be read more than once."""
    small = Capacity(context=120, cells=512, batch=64, rows=32, sequences=16, forkable=True)
    with pytest.raises(ModelError, match="does not fit"):
        bench_scoring(BoundaryScorer(ToyModel(small)), [[talk(4)]], BARE, 1, math.inf, print)


def test_logs_that_grow_and_logs_read_anew_are_the_same_logs() -> None:
    """Both ways give the same probabilities at the same events, and only the one without kept cells reads each log
    whole at each event."""
    model = WatchedModel()
    found = bench_growing(BoundaryScorer(model), [talk(4), talk(2)], BARE, 1, math.inf, print)
    assert found["events"] == len(found["speedups"]) * (4 + 2)
    assert found["largest_difference"] < 1e-12
    read = [tokens for tokens, _ in model.batches]
    growing, anew = read[: found["events"]], read[found["events"] :]
    assert sum(growing) < sum(anew) / 1.5
    assert max(anew) > len("".join(talk(4).texts))
