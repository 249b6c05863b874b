"""The stages of a scoring run, and the estimate of its cost before it starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.completeness.scoring import Question
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.runs import ModelReading, ScoringRun, estimate_scoring
from engine.completeness.stages.scoring import ScoringStage
from engine.model.catalog import LoadableModel
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.endpoint_book import EndpointEntry
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from tests.engine.model.tiny import write_sliding
from tests.engine.project.support import fill, talk

WORDS = "The parcel left the depot on Monday and nobody has seen it since then. "


@pytest.mark.parametrize(
    "words", [WORDS, "包裹星期一离开了仓库, 之后没有人再见过它。"], ids=["English", "Chinese"]
)
def test_the_cost_is_that_of_the_bytes(tmp_path: Path, words: str) -> None:
    """What waits takes as long as a token for each four bytes does at the measured speed, in any language."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk(name, words * 50 + name, "Oh.") for name in ("a", "b")])
        model = LoadableModel("m", tmp_path, LoadOptions(), None, {"model": "m"}, None, 500.0)
        question = Question(None)
        process = ModelProcess(tmp_path / "model.log")
        stage = ScoringStage(project, process, model, "tuned", question)
        run = ScoringRun(ModelReading(model, question, stage), stage, [stage])
        found = estimate_scoring(project, run)
    assert found.items == 2
    assert found.tokens == pytest.approx(2 * 50 * len(words.encode()) / 4, rel=0.05)
    assert found.seconds == pytest.approx((found.tokens or 0) / 500, rel=0.01)


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
