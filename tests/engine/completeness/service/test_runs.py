"""The stages of a scoring run, and the estimate of its cost before it starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.scoring_run import ModelReading, ScoringRun, estimate_scoring
from engine.completeness.stages.scoring import ScoringStage, question_for
from engine.conversations.stages import ImportStage
from engine.jobs.runner import JobRunner
from engine.model.catalog import LoadableModel
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.endpoint_book import EndpointEntry
from engine.model.process.process import ModelProcess
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.project.records import Estimate
from engine.simulate.demo import write_jsonl
from tests.engine.completeness import scored
from tests.engine.model.tiny import write_sliding
from tests.engine.project.support import fill, talk

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
        question, run_model = question_for("tuned", {}), model
        stage = ScoringStage(project, process, run_model, "tuned", question)
        run = ScoringRun(ModelReading(run_model, question, stage), stage, [stage])
        found = estimate_scoring(
            project, process, run, lambda _, speed, tokens: measured.append(tokens)
        )
    return found, measured


class TestEstimate:
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


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[OpenProject]:
    """A project of 24 different conversations that could end in two places."""
    with OpenProject(tmp_path / "p.wb", create=True) as opened:
        fill(opened.project, [talk(str(n), f"hi {n}", "hello", "bye", "bye") for n in range(24)])
        yield opened


class TestStages:
    @pytest.mark.parametrize(
        ("request_", "names"),
        [
            (ScoringRequest(), "fit read"),
            (ScoringRequest(features="states"), "read"),
            (ScoringRequest(mode="words"), "fit"),
        ],
        ids=["words and states", "states", "words"],
    )
    def test_words_come_first(
        self, workspace: OpenProject, request_: ScoringRequest, names: str
    ) -> None:
        """Scores by words come before reading, but on states alone; in mode words nothing is read."""
        made = workspace.scoring_runs.make_run(replace(request_, tune=False, remaining=False))
        assert [stage.name for stage in made.stages] == names.split()
        assert (made.reading is None) == (request_.mode == "words")

    @pytest.mark.parametrize("limit", [None, 19])
    def test_the_mode_that_is_best_for_so_many(
        self, workspace: OpenProject, tmp_path: Path, limit: int | None
    ) -> None:
        """A local model refines words in mode probe, and beside endpoints words score alone; with too few conversations
        for a fit the built-in model has a probe of its own, and another one scores in mode base."""
        request = ScoringRequest(limit=limit)
        assert workspace.scoring_runs.mode_for(request) == "probe"
        workspace.catalog.add(write_sliding(tmp_path / "other.gguf"), "other")
        other = replace(request, model="other")
        assert workspace.scoring_runs.mode_for(other) == ("probe" if limit is None else "base")
        served = EndpointEntry("served", "http://127.0.0.1:9/v1#m", Capabilities(server="vllm"))
        workspace.endpoints.book.file.write_text(json.dumps({"served": served.as_params()}))
        assert workspace.scoring_runs.mode_for(replace(request, model="served")) == "words"
