"""The reasons of stored scores: read from the project, they are those that made the scores."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import NotYet
from engine.completeness import probe
from engine.completeness.records import ProbeFeatures
from engine.completeness.service.word_reasons import WordReasons
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.tables import scores
from engine.conversations.stages import ImportStage
from engine.conversations.tables import conversations
from engine.project.project import Project
from engine.simulate.demo import sample_conversations, write_jsonl
from tests.engine.completeness.stages.test_fitting import KEY, give_states, run

COUNT = 48


@pytest.fixture(scope="module", autouse=True)
def repeated() -> Iterator[None]:
    """Conversations are divided into folds twice, so that reasons add up what several fits say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "REPEATS", 2)
        yield


@pytest.fixture(scope="module")
def unscored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of samples, not scored."""
    folder = tmp_path_factory.mktemp("samples")
    write_jsonl(sample_conversations(COUNT), folder / "logs.jsonl")
    with Project.open(folder / "p.wb", create=True) as project:
        assert run(project, ImportStage(project, [str(folder / "logs.jsonl")])).state == "done"
    return folder / "p.wb"


@pytest.fixture
def project(unscored: Path, tmp_path: Path) -> Iterator[Project]:
    """A copy of it, opened."""
    with Project.open(Path(shutil.copy(unscored, tmp_path / "p.wb"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def scored_by_words(unscored: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Another copy, opened and scored by words."""
    path = Path(shutil.copy(unscored, tmp_path_factory.mktemp("words") / "p.wb"))
    with Project.open(path) as opened:
        run(opened, FittingStage(opened, "words"))
        yield opened


@pytest.mark.parametrize("features", ["words", "both"])
def test_the_log_odds_are_those_of_the_scores(project: Project, features: ProbeFeatures) -> None:
    """Of boundaries of one kind of log that were read in one way, more log-odds never have a lower score."""
    if features == "both":
        give_states(project, list(range(1, COUNT // 2)))
    assert run(project, FittingStage(project, features, states_key=lambda: KEY)).state == "done"
    service = WordReasons(project)
    found = []
    stored = project.read(scores.current_scores, range(1, COUNT + 1, 3))
    for key, score in stored.items():
        for point in score.curve:
            reasons = service.of_conversation(key, point.message)
            assert reasons.message == point.message
            assert reasons.p == point.p_end_normalised
            found.append((reasons.states is not None, reasons.log_odds, reasons.p))

    assert {read for read, _, _ in found} == ({False, True} if features == "both" else {False})
    for way in (False, True):
        p = np.array([p for read, _, p in sorted(found) if read == way])
        assert (np.diff(p) > -2e-3).all()  # weights are stored as float16


def test_words_are_found_in_the_content(scored_by_words: Project) -> None:
    """Places are those of the message as imported, which the reader shows."""
    reasons = WordReasons(scored_by_words).of_conversation(1)
    with scored_by_words.reading() as conn:
        ((_, messages),) = conversations.conversations_for(conn, [1])
    places = [
        (reason.text, messages[reason.message].content[start:end])
        for reason in reasons.reasons
        for start, end in reason.places
    ]
    assert places
    assert all(" ".join(found.lower().split()) == text for text, found in places)


def test_why_there_are_none(project: Project) -> None:
    """Without scores, with scores by states, and before the first boundary the error says what to do."""
    service = WordReasons(project)
    with pytest.raises(NotYet, match="Nothing is scored") as none:
        service.of_conversation(1)
    assert "--mode words" in none.value.hint

    give_states(project, list(range(1, COUNT)))
    run(project, FittingStage(project, "states", states_key=lambda: KEY))
    with pytest.raises(NotYet, match="not by words: probe on states"):
        service.of_conversation(1)


def test_the_strongest_of_all(project: Project, scored_by_words: Project) -> None:
    """Each side has its words, strongest first, and each stands in the logs; without words there are none."""
    assert WordReasons(project).strongest(5) == []
    reasons = WordReasons(scored_by_words).strongest(5)
    weights = [word.weight for word in reasons]
    assert weights[:5] == sorted(weights[:5], reverse=True)
    assert weights[5:] == sorted(weights[5:])
    assert min(weights[:5]) > 0 > max(weights[5:])
    with scored_by_words.reading() as conn:
        rows = list(conversations.conversations_for(conn, range(1, COUNT + 1)))
    said = "".join(message.seen.lower() for _, messages in rows for message in messages)
    for word in reasons:
        text = word.text.removeprefix("begins with ").removeprefix("ends with ")
        assert all(part in said for part in text.split())
