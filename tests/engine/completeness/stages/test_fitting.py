"""Scores by a probe: the states that the model reads once, and what is fitted to them."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from engine.base.conversation import Conversation, Message, ToolCall, render_log
from engine.base.statistics.ranking import auroc
from engine.completeness import probe
from engine.completeness.boundaries import ENDS_WITH_RESULT, NO_BOUNDARY
from engine.completeness.bundled_probe import load_bundled_probe
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE, ProbeFeatures
from engine.completeness.service.sets import ScoreSets, name_of, reliability
from engine.completeness.service.word_reasons import WordReasons
from engine.completeness.stages import fitting as fitting_stage
from engine.completeness.stages import reading_states
from engine.completeness.stages.fitting import FittingStage
from engine.completeness.stages.reading_states import ReadingStage
from engine.completeness.stages.scoring import logs_of
from engine.completeness.stages.training_set import AT_CHANCE
from engine.completeness.tables import hidden_states, score_sets, scores
from engine.completeness.tables.hidden_states import BoundaryPlace, StateEntry
from engine.completeness.word_reasons import WordWeights
from engine.conversations.filters import parse_filter
from engine.conversations.selection import Selection
from engine.conversations.stages import ImportStage
from engine.jobs import contract
from engine.jobs.runner import JobRunner, RunOutcome
from engine.model.catalog import FIRST_LAYERS
from engine.model.process.process import ModelProcess
from engine.project.project import Project
from engine.simulate.demo import sample_conversations, write_jsonl
from tests.engine.completeness import scored
from tests.engine.completeness.scored import all_entries
from tests.engine.project.support import begin_run, fill, give_scores, record, talk

DIMENSIONS = 8
COUNT = 30
KEY = "states"

Json = dict[str, Any]


def run(project: Project, stage: ReadingStage | FittingStage | ImportStage) -> RunOutcome:
    """Runs a stage to its end."""
    return JobRunner(project, lambda event: None).run(stage)


def fitting(
    project: Project,
    features: ProbeFeatures = "states",
    *,
    required: bool = True,
) -> FittingStage:
    """The stage on words, on the states under `KEY`, or on both, which the built-in model reads."""
    if features == "words":
        return FittingStage(project, features, required=required)
    model = scored.model()
    options = replace(model.options, layers=FIRST_LAYERS)
    work = replace(model, options=options)
    return FittingStage(project, features, model=work, states_key=lambda: KEY, required=required)


def give_states(
    project: Project, ids: list[int], signal: float = 3.0, dimensions: int = DIMENSIONS
) -> None:
    """Stores made states at the true boundaries of conversations; those at ends are moved along one direction."""
    entries = []
    for log in logs_of(project, ids):
        random = np.random.default_rng(log.id)
        found = log.item.boundaries
        states = random.normal(size=(len(found), dimensions))
        states[-1:, 0] += signal
        places = tuple(
            BoundaryPlace(log.pieces[b].message, log.pieces[b].step, log.pieces[b].turn, 10 * b, 10)
            for b in found
        )
        reason = None if found else NO_BOUNDARY
        entries.append(StateEntry(log.id, places, states.astype("<f2").tobytes(), reason, 50))
    project.write(lambda conn: hidden_states.register_config(conn, KEY, "made", None))
    project.write(lambda conn: hidden_states.add(conn, KEY, 1, entries))


def cancelled_while_storing(
    project: Project, monkeypatch: pytest.MonkeyPatch, features: ProbeFeatures
) -> str:
    """Fits, and cancels after the first scores were stored; returns their config hash."""
    stage = fitting(project, features)
    add = scores.add_scores

    def cancelled(*data: Any, **named: Any) -> None:
        add(*data, **named)
        stage.interrupt()

    with monkeypatch.context() as patched:
        patched.setattr(scores, "add_scores", cancelled)
        assert run(project, stage).state == "cancelled"
    return stage.config_hash


def mixed(conversations: Sequence[Conversation]) -> list[Conversation]:
    """Conversations in which half of the agent's messages, drawn at random, are shuffled among all."""
    random = Random(5)
    places = [
        (number, index)
        for number, conversation in enumerate(conversations)
        for index, message in enumerate(conversation.messages)
        if message.role == "assistant" and not message.tool_calls and random.random() < 0.5
    ]
    messages = [list(conversation.messages) for conversation in conversations]
    texts = [messages[number][index] for number, index in places]
    random.shuffle(texts)
    for (number, index), message in zip(places, texts, strict=True):
        messages[number][index] = message
    return [
        replace(conversation, messages=tuple(own))
        for conversation, own in zip(conversations, messages, strict=True)
    ]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of thirty sample conversations, not scored; half of what the agent says stands in another one, so that
    words tell less than states can."""
    folder = tmp_path_factory.mktemp("samples")
    write_jsonl(mixed(sample_conversations(COUNT, seed=3)), folder / "samples.jsonl")
    with Project.open(folder / "p.wb", create=True) as project:
        JobRunner(project, lambda event: None).run(
            ImportStage(project, [str(folder / "samples.jsonl")])
        )
    return folder / "p.wb"


@pytest.fixture
def project(samples: Path, tmp_path: Path) -> Iterator[Project]:
    """A copy of it."""
    with Project.open(Path(shutil.copy(samples, tmp_path / "p.wb"))) as opened:
        yield opened


class TestFitting:
    def test_what_was_read_is_scored_and_tested(self, project: Project) -> None:
        """Every conversation that was read has a curve of the probe's probabilities and the set its own test; the
        others have no score."""
        give_states(project, list(range(1, 29)))
        outcome = run(project, fitting(project))
        with project.reading() as conn:
            config = score_sets.config_in_force(conn)
            found = scores.current_scores(conn, range(1, COUNT + 1))
            kept = {entry.conversation_id: entry.places for entry in all_entries(conn, KEY)}
        assert config is not None
        assert (config.mode, config.model) == ("probe", "shipped")
        assert sorted(found) == list(range(1, 29))
        for key, row in found.items():
            assert [point.message for point in row.curve] == [place.message for place in kept[key]]
            assert row.p_end == row.p_end_normalised == row.curve[-1].p_end
        test = config.test
        assert test is not None
        assert test.conversations == sum(len(places) > 1 for places in kept.values())
        assert 0.9 < test.auroc.value <= 1
        assert test.auroc.low > max(test.keywords, test.position) - 0.5
        assert outcome.state == "done"
        assert "whole against cut: AUROC" in outcome.message

    def test_again_changes_nothing(self, project: Project) -> None:
        """A second fit of the same states finds its scores stored."""
        give_states(project, list(range(1, COUNT + 1)))
        run(project, fitting(project))
        with project.reading() as conn:
            before = list(scores.export_scores(conn))
        again = run(project, fitting(project))
        assert again.state == "done"
        assert "stored already" in again.message
        with project.reading() as conn:
            assert list(scores.export_scores(conn)) == before
            assert len(score_sets.configs(conn)) == 1

    def test_a_cancel_while_scores_are_stored(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What a cancel leaves of the scores stays hidden; the next run stores those of a run that nobody disturbed."""
        monkeypatch.setattr(fitting_stage, "CONVERSATIONS_PER_TRANSACTION", 7)
        key = cancelled_while_storing(project, monkeypatch, "words")
        with project.reading() as conn:
            assert score_sets.configs(conn) == []
            assert score_sets.config_in_force(conn) is None
            assert len(scores.normalized_curves(conn, key, range(1, COUNT + 1))) == 7
        assert fitting(project, "words").waiting() > 0

        assert run(project, fitting(project, "words")).state == "done"
        with project.reading() as conn:
            in_parts = scores.normalized_curves(conn, key, range(1, COUNT + 1))
            assert [config.config_hash for config in score_sets.configs(conn)] == [key]
            config = score_sets.config_in_force(conn)
            assert config is not None
            assert config.config_hash == key
        project.write(lambda conn: score_sets.drop(conn, key))
        run(project, fitting(project, "words"))
        assert project.read(scores.normalized_curves, key, range(1, COUNT + 1)) == in_parts

    def test_fits_that_end_at_the_same_time(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two fits that would store their scores at the same time, on words and on states, both store them all."""
        give_states(project, list(range(1, COUNT + 1)))
        store, score_entries = FittingStage._store, FittingStage._score_entries
        fitted, begun = threading.Barrier(2), threading.Barrier(2)

        def store_together(*data: Any) -> tuple[int, int]:
            fitted.wait(60)
            return store(*data)

        def score_together(*data: Any) -> Iterator[Any]:
            with contextlib.suppress(threading.BrokenBarrierError):
                begun.wait(0.5)
            return score_entries(*data)

        monkeypatch.setattr(FittingStage, "_store", store_together)
        monkeypatch.setattr(FittingStage, "_score_entries", score_together)
        with ThreadPoolExecutor() as pool:
            stages = [fitting(project, "words"), fitting(project, "states")]
            outcomes = list(pool.map(partial(run, project), stages))
        assert [outcome.state for outcome in outcomes] == ["done", "done"]
        scored_by_features = {row.features: row.scored for row in project.read(score_sets.sets)}
        assert scored_by_features == {"words": COUNT, "states": COUNT}

    @pytest.mark.parametrize("number", [2, MIN_CONVERSATIONS_FOR_PROBE - 1])
    def test_few_are_scored_by_the_bundled_probe(self, project: Project, number: int) -> None:
        """Fewer conversations than a probe needs are scored by the one that comes with the program; the set says so,
        and has a test where there are five."""
        bundled = load_bundled_probe().probe
        give_states(project, list(range(1, number + 1)), dimensions=len(bundled.regression.weights))
        outcome = run(project, fitting(project))
        assert outcome.state != "failed"
        assert "by the probe of the program's samples" in str(outcome)
        with project.reading() as conn:
            config = score_sets.config_in_force(conn)
            assert config is not None
            assert (config.mode, config.adapter) == ("probe", "samples")
            assert (config.test is None) == (number < 5)
            for entry in all_entries(conn, KEY):
                raw = np.frombuffer(entry.states, "<f2").reshape(len(entry.places), -1)
                stored = scores.normalized_curves(conn, config.config_hash, [entry.conversation_id])
                found = list(stored[entry.conversation_id].values())
                assert found == pytest.approx(bundled.p(raw.astype(np.float32)).tolist())

    def test_the_bundled_probe_reads_the_first_layers(self, project: Project) -> None:
        """Few conversations that were read with the whole model get no scores: the bundled probe reads the states after
        its first layers."""
        give_states(project, [1, 2])
        whole = FittingStage(
            project, "states", model=scored.model(), states_key=lambda: KEY, required=True
        )
        outcome = run(project, whole)
        assert outcome.state == "failed"

    def test_copies_share_a_fold(
        self, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Conversations that differ in a word of their last message share a group of the fit, and different ones do
        not."""
        write_jsonl(sample_conversations(COUNT, seed=3)[:3], tmp_path / "copies.jsonl")
        rows = [json.loads(line) for line in (tmp_path / "copies.jsonl").read_text().splitlines()]
        for row in rows:
            row["id"] += "-copy"
            row["messages"][-1]["content"] += " Really."
        (tmp_path / "copies.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
        run(project, ImportStage(project, [str(tmp_path / "copies.jsonl")]))
        give_states(project, list(range(1, COUNT + 4)))
        seen = []
        whole = probe.cross_fit

        def cross_fit(*data: NDArray[np.int64], **options: object) -> object:
            seen.append(data[2])
            return whole(*data, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(probe, "cross_fit", cross_fit)
        run(project, fitting(project))
        usable = [entry for entry in project.read(all_entries, KEY) if entry.places]
        ends = np.cumsum([len(entry.places) for entry in usable]) - 1
        for group in seen:
            of = dict(zip((entry.conversation_id for entry in usable), group[ends], strict=True))
            assert [of[COUNT + copy] for copy in (1, 2, 3)] == [of[copy] for copy in (1, 2, 3)]
            assert len({int(of[copy]) for copy in (1, 2, 3)}) == 3


def curves(project: Project) -> dict[int, dict[int, float | None]]:
    """The curve of each conversation by message, in the set in force."""
    with project.reading() as conn:
        config = score_sets.config_in_force(conn)
        assert config is not None
        return scores.normalized_curves(conn, config.config_hash, range(1, 2_000))


@pytest.mark.parametrize("features", ["words", "both"])
@pytest.mark.parametrize("is_habit", [False, True])
def test_a_log_that_stops_at_a_result(
    tmp_path: Path, features: ProbeFeatures, is_habit: bool
) -> None:
    """It is broken off, whatever its hidden state says, unless most logs of the set end so; the score has a note."""
    random = Random(1)
    answer, result = Message("assistant", "You are welcome."), Message("tool", '{"done": true}')
    talks = []
    for number in range(40):
        request = " ".join(f"word{random.randrange(500)}" for _ in range(12))
        call = Message("assistant", "", tool_calls=(ToolCall("find", json.dumps(request[:20])),))
        messages = [Message("user", "Hello."), Message("assistant", f"Which? {request}")]
        messages += [Message("user", request), call, result]
        if number % 8:
            messages += [Message("assistant", "It is there."), Message("user", "Thank you, bye.")]
            messages += [call, result] if is_habit else [answer]
        talks.append(record(Conversation(f"talk-{number}", tuple(messages))))
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, talks)
        project.write(lambda conn: begin_run(conn, "read", KEY))
        give_states(project, list(range(1, 41)))
        assert run(project, fitting(project, features)).state == "done"
        with project.reading() as conn:
            found = scores.current_scores(conn, range(1, 41))
    for key, score in found.items():
        stops = key % 8 == 1
        assert (score.reason == ENDS_WITH_RESULT) == (stops or is_habit)
        assert score.p_end is not None
        assert (score.p_end > 0.5) == (is_habit or not stops)


class TestWords:
    def test_all_are_scored_without_a_model(self, project: Project, tmp_path: Path) -> None:
        """By words every conversation has a curve at each of its boundaries, or the reason why there is none; the set
        says that no model made it, and is tested."""
        alone = {"id": "alone", "messages": [{"role": "user", "content": "Hello?"}]}
        (tmp_path / "alone.jsonl").write_text(json.dumps(alone))
        run(project, ImportStage(project, [str(tmp_path / "alone.jsonl")]))
        outcome = run(project, fitting(project, "words"))
        assert outcome.state == "done"
        assert outcome.message.startswith(f"Scored {COUNT} conversations by a probe that never saw")
        ids = range(1, COUNT + 2)
        with project.reading() as conn:
            found = scores.current_scores(conn, ids)
            (score_set,) = score_sets.sets(conn)
        assert (score_set.mode, score_set.model, score_set.features) == ("words", "", "words")
        assert (score_set.read, score_set.scored) == (0, COUNT)
        assert score_set.test is not None
        assert score_set.test.auroc.value > 0.6
        for log in logs_of(project, ids):
            points = [log.pieces[boundary].message for boundary in log.item.boundaries]
            assert [point.message for point in found[log.id].curve] == points
        assert found[COUNT + 1].reason == NO_BOUNDARY

    def test_more_conversations_replace_the_set(self, project: Project, tmp_path: Path) -> None:
        """After another import all are scored anew, and the older set by words is deleted."""
        run(project, fitting(project, "words"))
        write_jsonl(sample_conversations(COUNT + 4, seed=3)[COUNT:], tmp_path / "more.jsonl")
        run(project, ImportStage(project, [str(tmp_path / "more.jsonl")]))
        assert fitting(project, "words").waiting() == COUNT + 4
        run(project, fitting(project, "words"))
        assert len(curves(project)) == COUNT + 4
        assert len(project.read(score_sets.sets)) == 1

    @pytest.mark.parametrize("required", [True, False])
    def test_too_few(self, tmp_path: Path, required: bool) -> None:
        """With fewer conversations than a probe needs, copies counted once, a run fails with their number, or where
        other scores follow it only says so; nothing is stored."""
        made = sample_conversations(MIN_CONVERSATIONS_FOR_PROBE - 1, seed=3)
        copies = [replace(one, external_id=one.external_id + "-copy") for one in made]
        write_jsonl([*made, *copies], tmp_path / "few.jsonl")
        with Project.open(tmp_path / "few.wb", create=True) as project:
            run(project, ImportStage(project, [str(tmp_path / "few.jsonl")]))
            outcome = run(project, fitting(project, "words", required=required))
            assert outcome.state == ("failed" if required else "done")
            assert f"needs {MIN_CONVERSATIONS_FOR_PROBE} conversations" in outcome.message
            with project.reading() as conn:
                assert score_sets.configs(conn) == []
                assert scores.current_scores(conn, range(1, 100)) == {}

    def test_of_many_some_are_learned_from_and_all_are_scored(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With more conversations than are learned from, the others are scored page by page about as if they had been
        cross-fitted, and told apart as well; the size of a page changes nothing."""
        write_jsonl(sample_conversations(200, seed=3), tmp_path / "many.jsonl")
        with Project.open(tmp_path / "many.wb", create=True) as project:
            run(project, ImportStage(project, [str(tmp_path / "many.jsonl")]))
            run(project, fitting(project, "words"))
            fitted = curves(project)
            monkeypatch.setattr(probe, "MAX_CONVERSATIONS", 100)
            outcome = run(project, fitting(project, "words"))
            assert outcome.state == "done"
            assert "learned from 100 conversations drawn at random" in outcome.message
            streamed = curves(project)
            drawn_key = fitting(project, "words").config_hash
            project.write(lambda conn: score_sets.drop(conn, drawn_key))
            monkeypatch.setattr(fitting_stage, "CONVERSATIONS_PER_TRANSACTION", 7)
            run(project, fitting(project, "words"))
            in_pages = curves(project)
        assert list(streamed) == list(fitted) == list(in_pages)
        for key, curve in streamed.items():
            assert list(curve) == list(fitted[key])
            assert list(in_pages[key].values()) == pytest.approx(list(curve.values()))
        unseen = set(fitted).difference(probe.sample_conversations(list(fitted)))
        assert len(unseen) == 100
        values = [
            np.array([p for key in sorted(unseen) for p in one[key].values()], dtype=float)
            for one in (fitted, streamed)
        ]
        ends = [
            at == len(fitted[key]) - 1 for key in sorted(unseen) for at in range(len(fitted[key]))
        ]
        assert np.corrcoef(np.stack(values))[0, 1] > 0.8
        areas = [auroc(each.tolist(), ends).value for each in values]
        assert areas[1] > areas[0] - 0.05


class TestBoth:
    def test_without_states_the_words_score(self, project: Project) -> None:
        """Where nothing was read, and where fewer were than a probe on states needs, scores are those by words."""
        run(project, fitting(project, "words"))
        by_words = curves(project)
        for read in (0, MIN_CONVERSATIONS_FOR_PROBE - 1):
            give_states(project, list(range(1, read + 1)))
            run(project, fitting(project, "both"))
            config = project.read(score_sets.config_in_force)
            assert config is not None
            assert (config.mode, config.features) == ("probe", "both")
            assert curves(project) == by_words

    def test_what_was_read_is_scored_by_both(self, project: Project) -> None:
        """Conversations that were read have scores by both, which their states decide here; the others keep those by
        words. Once all are read, the set is no longer partial and the one from before is deleted."""
        run(project, fitting(project, "words"))
        by_words = curves(project)
        read = range(1, 25)
        give_states(project, list(read))
        run(project, fitting(project, "both"))
        some = curves(project)
        assert {key for key, curve in some.items() if curve == by_words[key]} == {
            key for key in by_words if key not in read
        }
        (_, part) = ScoreSets(project).all()
        assert (part.read, part.in_force, part.scored) == (len(read), True, len(by_words))
        assert name_of(part) == f"probe · shipped · words of all {COUNT}, states of {len(read)}"

        give_states(project, list(range(25, COUNT + 1)))
        run(project, fitting(project, "both"))
        assert all(curve != by_words[key] for key, curve in curves(project).items())
        found = ScoreSets(project).all()
        assert [(one.features, one.read, one.in_force) for one in found] == [
            ("words", 0, False),
            ("both", COUNT, True),
        ]
        tests = {one.features: one.test for one in found}
        assert tests["both"] is not None
        assert tests["words"] is not None
        assert tests["both"].auroc.value > tests["words"].auroc.value

    def test_of_many_unseen_ones_are_scored_by_both(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With more conversations than are learned from, those with states come first, and others with states are
        scored by both too."""
        give_states(project, list(range(1, 29)), signal=6.0)
        monkeypatch.setattr(probe, "MAX_CONVERSATIONS", 24)
        run(project, fitting(project, "both"))
        found = curves(project)
        assert len(found) == COUNT
        learned = probe.sample_conversations(range(1, COUNT + 1), range(1, 29))
        for key in set(range(1, 29)).difference(learned):
            curve = list(found[key].values())
            assert all((p or 0) > 0.5 for p in curve[-1:])
            assert all((p or 0) < 0.5 for p in curve[:-1])


NOUNS = [
    "river", "stone", "paper", "table", "lamp", "door", "window", "chair", "glass", "metal", "cloud",
]  # fmt: skip


def made_chats(count: int, seed: int, nouns: Sequence[str] = NOUNS) -> Iterator[Json]:
    """Chats that most often end with thanks, which now and then come earlier too."""
    random = Random(seed)
    for number in range(count):
        messages: list[Json] = []
        count_of_turns = random.randint(2, 4)
        for turn in range(count_of_turns):
            thanks = random.random() < (0.9 if turn == count_of_turns - 1 else 0.1)
            begin = "thanks for" if thanks else "please find"
            messages.append(said("user", begin, random.choices(nouns, k=6)))
            begin = "goodbye and" if thanks else "which one of"
            messages.append(said("assistant", begin, random.choices(nouns, k=6)))
        yield {"id": f"chat {seed} {number}", "messages": messages}


def made_runs(count: int, seed: int) -> Iterator[Json]:
    """Runs of an agent after one request, which most often end with an answer."""
    random = Random(seed)
    for number in range(count):
        messages: list[Json] = [said("user", "count", random.choices(NOUNS, k=6))]
        for _ in range(random.randint(2, 4)):
            query = json.dumps({"query": " ".join(random.choices(NOUNS, k=3))})
            function = {"name": "search", "arguments": query}
            call = {"id": "1", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append(said("tool", "rows", random.choices(NOUNS, k=6)))
        if random.random() < 0.9:
            messages.append(said("assistant", "the answer is", random.choices(NOUNS, k=2)))
        yield {"id": f"run {seed} {number}", "messages": messages}


def made_noise(count: int, seed: int) -> Iterator[Json]:
    """Chats whose end is like any other place, in words of their own."""
    random = Random(seed)
    nouns = [f"un{noun}" for noun in NOUNS]
    for number in range(count):
        messages = [
            said(role, "", random.choices(nouns, k=7))
            for _ in range(random.randint(2, 6))
            for role in ("user", "assistant")
        ]
        yield {"id": f"noise {seed} {number}", "messages": messages}


def said(role: str, begin: str, nouns: Sequence[str]) -> Json:
    """A message."""
    return {"role": role, "content": " ".join([begin, *nouns])}


def imported(folder: Path, **logs: Iterable[Json]) -> Project:
    """A new project of these logs, a file each."""
    for name, log in logs.items():
        lines = "".join(json.dumps(one) + "\n" for one in log)
        (folder / f"{name}.jsonl").write_text(lines)
    project = Project.open(folder / "kinds.wb", create=True)
    paths = [str(folder / f"{name}.jsonl") for name in logs]
    assert run(project, ImportStage(project, paths)).state == "done"
    return project


def kinds_in_words(project: Project) -> list[str]:
    """What is said of each kind in the set in force, without its figures."""
    sets = ScoreSets(project).all()
    (score_set,) = (one for one in sets if one.in_force)
    return [kind.partition(", AUROC")[0] for kind in reliability(score_set, sets).kinds]


class TestKinds:
    def test_a_probe_for_each(self, tmp_path: Path) -> None:
        """Chats and runs of an agent have a probe and a test each, and every conversation the scores that it has where
        its kind is alone; two files of chats are one kind."""
        logs = {"one": made_chats(25, 1), "two": made_chats(20, 2), "runs": made_runs(30, 3)}
        with imported(tmp_path, **logs) as project:
            outcome = run(project, fitting(project, "words"))
            assert outcome.state == "done"
            assert "by probes that never saw them, one for each kind of log" in outcome.message
            assert kinds_in_words(project) == [
                "chats: 45 conversations",
                "runs of an agent: 30 conversations",
            ]
            together = curves(project)
            for source, ids in (("-source:runs", range(1, 46)), ("source:runs", range(46, 76))):
                alone = Selection(parse_filter(source))
                stage = FittingStage(project, "words", selection=alone)
                run(project, stage)
                found = project.read(scores.normalized_curves, stage.config_hash, range(1, 76))
                assert found == {key: together[key] for key in ids}

    def test_few_of_a_kind_are_scored_by_a_fit_to_all(self, tmp_path: Path) -> None:
        """Conversations of a kind with too few have scores by a probe that is fitted to all, which is said of them."""
        few = MIN_CONVERSATIONS_FOR_PROBE - 1
        other = made_chats(25, 4, [f"un{noun}" for noun in NOUNS])
        logs = {"chats": made_chats(30, 1), "other": other, "runs": made_runs(few, 3)}
        with imported(tmp_path, **logs) as project:
            run(project, fitting(project, "words"))
            assert kinds_in_words(project)[-1] == (
                f"others, by a probe fitted to all: {few} conversations, too few to test"
            )
            assert len(curves(project)) == 55 + few
            assert_reasons_explain(project, range(56, 56 + few))

    def test_copies_are_no_kind(self, tmp_path: Path) -> None:
        """Enough conversations of a kind that are copies of few are scored by a probe fitted to all."""
        copies = [
            {"id": f"{n}", "messages": [*one["messages"], said("assistant", f"{n}", ())]}
            for n, one in enumerate([*made_runs(3, 3)] * 10)
        ]
        logs = {"chats": made_chats(30, 1), "runs": copies}
        with imported(tmp_path, **logs) as project:
            run(project, fitting(project, "words"))
            assert kinds_in_words(project) == [
                "chats: 30 conversations",
                "others, by a probe fitted to all: 30 conversations, too few to test",
            ]

    @pytest.mark.parametrize("alone", [False, True])
    def test_a_kind_at_chance_has_no_scores(self, tmp_path: Path, alone: bool) -> None:
        """Where ends are not told apart a conversation has the reason in place of numbers; other kinds keep theirs. The
        set comes into force also in the place of one that had scores of these conversations."""
        noise = list(made_noise(40, 5))
        few = MIN_CONVERSATIONS_FOR_PROBE - 1
        logs = {} if alone else {"chats": made_chats(70, 1)}
        with imported(tmp_path, **logs, few=noise[:few]) as project:
            run(project, fitting(project, "words", required=False))
            before = {} if alone else curves(project)
            assert len(before) == (0 if alone else 70 + few)
            lines = "".join(json.dumps(one) + "\n" for one in noise[few:])
            (tmp_path / "rest.jsonl").write_text(lines)
            run(project, ImportStage(project, [str(tmp_path / "rest.jsonl")]))
            run(project, fitting(project, "words"))
            chats = [] if alone else list(range(1, 71))
            assert list(curves(project)) == chats
            found = project.read(scores.current_scores, range(1, 200))
            assert {found[key].reason for key in found if key not in chats} == {AT_CHANCE}
            assert len(found) == len(chats) + 40


def assert_reasons_explain(project: Project, ids: Iterable[int]) -> None:
    """Checks that scores that are not cut to the largest or the least probability rise with the log-odds that the
    reasons add up to, at all boundaries of conversations that one fit scored. Weights are stored with three digits, so
    that neighbors may change places."""
    reasons = WordReasons(project)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(WordWeights, "unpacked", cache(WordWeights.unpacked))
        found = [
            reasons.of_conversation(key, message)
            for key, curve in curves(project).items()
            if key in ids
            for message in curve
        ]
    log_odds, p = zip(
        *((one.log_odds, one.p) for one in found if 0.001 < one.p < 0.999), strict=True
    )
    assert len(set(p)) > 10
    assert spearmanr(log_odds, p).statistic > 0.999


class TestReading:
    @pytest.fixture(autouse=True)
    def single_layer(self, single_layer_weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Reads with one layer of the shipped weights."""
        monkeypatch.setenv(scored.WEIGHTS, str(single_layer_weights))

    def test_states_at_every_boundary_and_nothing_is_read_twice(
        self, tmp_path: Path, process: ModelProcess
    ) -> None:
        """Each boundary has one state of the model's width and each conversation without one a reason; a run of part
        and then of all reads the part once, and the states are the same up to batch noise."""
        scored.make(tmp_path / "a.wb")
        shutil.copy(tmp_path / "a.wb", tmp_path / "b.wb")
        kept = []
        for name, filters in (("a", [""]), ("b", ["name:talk-03", ""])):
            with Project.open(tmp_path / f"{name}.wb") as project:
                for text in filters:
                    stage = ReadingStage(
                        project,
                        process,
                        scored.model(),
                        selection=Selection(parse_filter(text)),
                    )
                    outcome = run(project, stage)
                    assert outcome.state == "done"
                if len(filters) > 1:
                    assert "11 conversations" in outcome.message
                    assert "1 were read before" in outcome.message
                with project.reading() as conn:
                    kept.append(list(all_entries(conn, stage.config_hash)))
                    assert score_sets.config_in_force(conn) is None
        whole, parts = kept
        assert [entry.places for entry in whole] == [entry.places for entry in parts]
        for entry, conversation in zip(whole, scored.conversations(), strict=True):
            assert (entry.reason == NO_BOUNDARY) == (conversation.external_id == scored.ONLY_USER)
            assert len(entry.states) == len(entry.places) * 576 * 2
            pieces = render_log(conversation.messages)
            sizes = {piece.message: len(piece.text) for piece in pieces}
            assert all(place.step_chars == sizes[place.message] for place in entry.places)
            assert all(place.chars <= sum(sizes.values()) for place in entry.places)
            values = np.frombuffer(entry.states, "<f2")
            assert np.isfinite(values).all()
            assert not values.size or values.std() > 0.1
        first, second = (
            np.concatenate([np.frombuffer(entry.states, "<f2") for entry in entries])
            for entries in (whole, parts)
        )
        assert np.corrcoef(first.astype(float), second.astype(float))[0, 1] > 0.9999

    def test_what_words_leave_open_is_read_first(
        self, tmp_path: Path, process: ModelProcess, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Those without a score by words are read first, then those whose score is nearest to one half."""
        monkeypatch.setattr(contract, "BLOCK_CHARS", 1)  # blocks of four
        scored.make(tmp_path / "a.wb")
        by_words = {key: 0.5 + 0.04 * (key % 6) for key in range(1, 13)}
        with Project.open(tmp_path / "a.wb") as project:
            give_scores(project, {**by_words, 11: None}, "w")
            stage = ReadingStage(project, process, scored.model(), words_key=lambda: "w")
            read: list[set[int]] = []
            for _ in stage.run(1):
                now = set(project.read(hidden_states.ids_with_entry, stage.config_hash))
                read += [now] if now and now not in read else []
        nearest = sorted(by_words, key=lambda key: (key != 11, by_words[key]))
        assert [len(ids) for ids in read] == [4, 8, 12]
        assert {11, 6, 12} < read[0] <= set(nearest[:5])
        assert read[0] < read[1] <= set(nearest[:9])

    def test_over_its_time_it_stops_once_a_probe_is_possible(
        self, tmp_path: Path, process: ModelProcess, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without any time left, conversations are read until a probe can be fitted to their states, and no more."""
        monkeypatch.setattr(contract, "BLOCK_CHARS", 1)
        clock = SimpleNamespace(monotonic=count(0, 100).__next__)  # each look takes 100 s
        monkeypatch.setattr(reading_states, "time", clock)
        with Project.open(tmp_path / "short.wb", create=True) as project:
            fill(project, [talk(str(n), f"hi {n}", "hello") for n in range(COUNT)])
            stage = ReadingStage(project, process, scored.model(), minutes=1)
            assert run(project, stage).state == "done"
        assert stage.read == MIN_CONVERSATIONS_FOR_PROBE < COUNT
