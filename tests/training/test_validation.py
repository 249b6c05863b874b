"""The curves by which a training run is validated."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from engine.completeness.model_requests import Score
from engine.completeness.scoring import LogItem, Question, question_tokens
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.training.config import TrainConfig
from tests.training.tiny_runs import item, tiny_base
from training.base import load_base
from training.examples import Log
from training.validation import Point, curve, validate

LOGS = [
    Log(made["id"], LogItem(tuple(made["texts"]), tuple(made["boundaries"]), made["kept"]))
    for made in (item(number, turns) for number, turns in ((1, 2), (2, 3), (3, 12)))
]


class TestCurve:
    @pytest.mark.parametrize("context", [256, 512])
    def test_it_is_what_scoring_reads(self, tmp_path: Path, context: int) -> None:
        """At every boundary both probabilities are those of scoring with llama.cpp, whole or in windows."""
        hub, gguf = tiny_base(tmp_path)
        model, tokenizer = load_base(TrainConfig(base=str(hub), precision="f32"))
        question = Question(None)
        _, tokens = question_tokens(question, tokenizer)
        limit = context - len(tokens.continuation)
        process = ModelProcess(tmp_path / "model.log")
        try:
            process.load(gguf, LoadOptions(context=context), None)
            scores = process.ask(Score([log.item for log in LOGS], question))
        finally:
            process.close()

        for log, score in zip(LOGS, scores, strict=True):
            ours = curve(model.eval(), tokenizer, log, limit)
            theirs = [(math.log(at.p_end), math.log(at.p_continue)) for at in score.curve]
            assert [(at.log_end, at.log_continue) for at in ours] == [
                pytest.approx(both, abs=1e-3) for both in theirs
            ]


def test_conversations_of_one_name(tmp_path: Path) -> None:
    """Two conversations with the same id, from two sources, are two of a validation."""
    hub, _ = tiny_base(tmp_path)
    model, tokenizer = load_base(TrainConfig(base=str(hub), precision="f32"))
    namesakes = [replace(log, id="1") for log in LOGS]
    assert validate(model, tokenizer, namesakes, 512, 0).pairs == len(LOGS)


@pytest.mark.parametrize(
    ("point", "value"),
    [
        (Point(math.log(0.5), math.log(0.5)), 0.5),
        (Point(math.log(0.09), math.log(0.01)), 0.9),
        (Point(-1000.0, 0.0), 0.0),
        (Point(0.0, -1000.0), 1.0),
    ],
)
def test_value(point: Point, value: float) -> None:
    """The normalized value is the end's share of both probabilities, however small these are."""
    assert point.score == pytest.approx(value)
