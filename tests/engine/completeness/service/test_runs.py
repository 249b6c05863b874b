"""The cost estimate of a scoring run before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message
from engine.completeness.service.runs import ModelReading, ScoringRun, estimate_scoring
from engine.completeness.stages.scoring import ScoringStage, question_for
from engine.conversations.stages import ImportStage
from engine.jobs.runner import JobRunner
from engine.model.catalog import LoadableModel
from engine.model.process.process import ModelProcess
from engine.project.project import Project
from engine.project.records import Estimate
from engine.simulate.demo.samples import write_jsonl
from tests.engine.completeness import scored

WORDS = "The parcel left the depot on Monday and nobody has seen it since then. "


@pytest.fixture(scope="module", autouse=True)
def weights(shallow_weights: Path) -> Iterator[None]:
    """Scores on five layers of the shipped weights, as the tests of the stages do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scored.WEIGHTS, str(shallow_weights))
        yield


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelProcess]:
    made = ModelProcess(tmp_path_factory.mktemp("log") / "model.log")
    yield made
    made.close()


def estimate(
    folder: Path, process: ModelProcess, repeated: int, model: LoadableModel
) -> tuple[Estimate, list[int]]:
    """The estimate for two conversations of `repeated` sentences, and lengths at which the speed was measured."""
    folder.mkdir()
    talks = [
        Conversation(name, (Message("user", WORDS * repeated + name), Message("assistant", "Oh.")))
        for name in ("a", "b")
    ]
    write_jsonl(talks, folder / "talks.jsonl")
    measured: list[int] = []
    with Project.open(folder / "p.wb", create=True) as project:
        JobRunner(project, lambda event: None).run(
            ImportStage(project, [str(folder / "talks.jsonl")])
        )
        question, run_model = question_for("tuned", {}, None), model
        stage = ScoringStage(project, process, run_model, "tuned", question)
        run = ScoringRun(ModelReading(run_model, question, stage), stage, [stage])
        found = estimate_scoring(
            project, process, run, lambda _, speed, tokens: measured.append(tokens)
        )
    return found, measured


class TestEstimate:
    def test_short_logs_cost_their_tokens(self, tmp_path: Path, process: ModelProcess) -> None:
        """For short logs the time is tokens over the measured speed, without a further measurement."""
        found, measured = estimate(tmp_path / "s", process, 2, scored.model())

        assert found.items == 2
        assert found.tokens is not None
        assert found.seconds == pytest.approx(found.tokens / 500, rel=0.01)
        assert measured == []

    def test_long_logs_cost_more(self, tmp_path: Path, process: ModelProcess) -> None:
        """For long logs the speed on a long text is measured once, and each token costs more."""
        found, measured = estimate(tmp_path / "l", process, 60, scored.model())

        assert found.tokens is not None
        assert found.seconds is not None
        assert found.seconds >= found.tokens / 500
        assert measured == [1024]

    def test_the_cost_is_that_of_the_two_measurements(
        self, tmp_path: Path, process: ModelProcess
    ) -> None:
        """A log as long as the measured long text takes as long as that did; twice as many windows cost no more per
        token.
        """
        model = replace(scored.model(), long=(250.0, 1024))

        for repeated in (66, 660):
            found, measured = estimate(tmp_path / str(repeated), process, repeated, model)
            assert found.seconds is not None
            assert found.tokens_per_second is not None
            assert found.tokens_per_second == pytest.approx(250, rel=0.05)
            assert measured == []

    def test_unknown_speed_is_not_made_up(self, tmp_path: Path, process: ModelProcess) -> None:
        """For a model that was never measured here the estimate has tokens and no seconds."""
        model = replace(scored.model(), tokens_per_s=None)
        found, _ = estimate(tmp_path / "u", process, 2, model)

        assert found.tokens
        assert found.seconds is None
