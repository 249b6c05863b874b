"""Reading in rounds: what is read is fitted to at each doubling, and when the run is cancelled."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.base.conversation import Conversation
from engine.base.events import Event, JobProgress
from engine.completeness.records import ScoreSet
from engine.completeness.service.sets import ScoreSets, name_of
from engine.completeness.stages import reading_states
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.reading_states import ReadingStage, RefiningStage
from engine.conversations.stages import ImportStage
from engine.jobs.runner import JobRunner, RunOutcome
from engine.model.process.process import ModelProcess
from engine.project import runs
from engine.project.project import Project
from engine.simulate.demo import sample_conversations, write_jsonl
from tests.engine.completeness import scored

COUNT = 44


@pytest.fixture(scope="module", autouse=True)
def single_layer(single_layer_weights: Path) -> Iterator[None]:
    """Reads with one layer of the shipped weights, in small blocks; fits first at 24 conversations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scored.WEIGHTS, str(single_layer_weights))
        patch.setattr("engine.jobs.contract.BLOCK_CHARS", 1)
        patch.setattr(reading_states, "FIRST_READ", 24)
        yield


@pytest.fixture(scope="module")
def scored_by_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of short beginnings of sample conversations, scored by words."""
    folder = tmp_path_factory.mktemp("words")
    samples = [
        Conversation(sample.external_id, sample.messages[: 6 + number % 3])
        for number, sample in enumerate(sample_conversations(COUNT, seed=5))
    ]
    write_jsonl(samples, folder / "samples.jsonl")
    with Project.open(folder / "p.wb", create=True) as project:
        runner = JobRunner(project, lambda event: None)
        runner.run(ImportStage(project, [str(folder / "samples.jsonl")]))
        runner.run(FittingStage(project, "words"))
    return folder / "p.wb"


@pytest.fixture
def project(scored_by_words: Path, tmp_path: Path) -> Iterator[Project]:
    """A copy of it, opened."""
    with Project.open(Path(shutil.copy(scored_by_words, tmp_path / "p.wb"))) as opened:
        yield opened


class Followed:
    """A run that is followed by its events; `act` is called with the runner and each of them."""

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        act: Callable[[JobRunner, JobProgress], None] = lambda runner, event: None,
    ) -> None:
        reading = ReadingStage(project, process, scored.model())

        def fit(required: bool) -> FittingStage:
            return FittingStage(
                project,
                "both",
                model=scored.model(),
                states_key=lambda: reading.config_hash,
                required=required,
                part=True,
            )

        self.results: list[str] = []
        self.shares: list[float] = []
        self.sets: list[list[str]] = []

        def listen(event: Event) -> None:
            if isinstance(event, JobProgress):
                self.shares.append(event.share or 0.0)
                if event.result:
                    self.results.append(event.result)
                    self.sets.append([name_of(score_set) for score_set in ScoreSets(project).all()])
                act(runner, event)

        runner = JobRunner(project, listen)
        self.outcome: RunOutcome = runner.run(RefiningStage(reading, fit, while_reading=True))


def in_force(project: Project) -> ScoreSet:
    (score_set,) = [score_set for score_set in ScoreSets(project).all() if score_set.in_force]
    return score_set


def test_it_is_fitted_to_on_the_way_in_one_run(project: Project, process: ModelProcess) -> None:
    """All is scored before the model reads. Each fit is said once and replaces the one before, which stays in no list;
    the set in force says how far the model is; one run is recorded, and its share never goes back."""
    assert name_of(in_force(project)) == "words"
    followed = Followed(project, process)
    assert followed.outcome.state == "done"
    assert [text.partition(" read:")[0] for text in followed.results] == [
        f"After {count} of {COUNT}" for count in (24, COUNT)
    ]
    assert all("AUROC" in text for text in followed.results)
    assert followed.sets == [
        ["words", f"probe · shipped · words of all {COUNT}, states of 24"],
        ["words", "probe · shipped"],
    ]
    assert followed.shares == sorted(followed.shares)
    read, *_ = project.read(runs.all_runs)
    assert (read.stage, read.state, read.done, read.total) == ("read", "done", COUNT, COUNT)


def test_a_cancel_fits_to_what_was_read(project: Project, process: ModelProcess) -> None:
    """After a cancel what was read is in the scores, and it is said; a later run reads only the rest."""

    def cancel(runner: JobRunner, event: JobProgress) -> None:
        if event.done == 28 and event.stage == "read":
            runner.cancel(event.job_id)

    followed = Followed(project, process, cancel_once(cancel))
    assert followed.outcome.state == "cancelled"
    assert "After 28 of 44 read: AUROC" in followed.outcome.message
    assert in_force(project).read == 28
    again = Followed(project, process)
    assert again.outcome.state == "done"
    assert "Read 16 conversations" in again.outcome.message
    assert name_of(in_force(project)) == "probe · shipped"


def test_a_second_cancel_leaves_the_fit_out(project: Project, process: ModelProcess) -> None:
    """A cancel while the last fit runs ends that too: the scores before stay in force, and what was read is kept."""

    def cancel(runner: JobRunner, event: JobProgress) -> None:
        if 24 < event.done < COUNT and not event.result:
            runner.cancel(event.job_id)

    followed = Followed(project, process, cancel)
    assert followed.outcome.state == "cancelled"
    assert in_force(project).read == 24
    assert "Reading was cancelled" in followed.results[-1]


def cancel_once(
    act: Callable[[JobRunner, JobProgress], None],
) -> Callable[[JobRunner, JobProgress], None]:
    """The action, until the run says that it was cancelled."""
    said: list[str] = []

    def once(runner: JobRunner, event: JobProgress) -> None:
        if event.result.startswith("Reading was cancelled"):
            said.append(event.result)
        if not said and event.done == 28:
            act(runner, event)
            said.append("cancelled")

    return once
