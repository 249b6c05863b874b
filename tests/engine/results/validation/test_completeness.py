"""`workbench validate PROJECT completeness`, on stored scores."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from engine.base.conversation import Verdict
from engine.completeness.records import CurvePoint, Mode
from engine.completeness.tables import score_sets, scores
from engine.completeness.tables.score_sets import ScoreConfig
from engine.completeness.tables.scores import ScoreEntry
from engine.completeness.truncation import cut_at
from engine.formats.records import Parsed
from engine.project import runs
from engine.project.project import Project
from engine.questions.service.triage import TriageService
from engine.training.config import Recipe, TrainConfig
from engine.training.run_directory import RunDirectory
from engine.training.run_files import runs_folder
from tests.engine.project.support import fill, talk
from workbench.cli import main

COUNT = 24
KEYS = ("accuracy", "precision", "recall", "f1", "auroc", "ap", "ece")
Value = Callable[[int, int], float]
"""The value after a turn (0 to 2) of a conversation."""


def rising(key: int, turn: int) -> float:
    """Scores that separate every end from every earlier boundary."""
    return 0.9 if turn == 2 else 0.1 + 0.001 * key


def flat(key: int, turn: int) -> float:
    """The same score everywhere."""
    return 0.3


def ends(key: int, turn: int) -> float:
    """Scores that are high at the end of a conversation: the first half have two turns, the others three."""
    return 0.9 if turn == (1 if key <= COUNT // 2 else 2) else 0.1


def name(key: int) -> str:
    """The external id of conversation `key`."""
    return f"talk/{key}"


def record(key: int, **known: Any) -> Parsed:
    """A conversation of three turns, of which the last is a farewell."""
    said = (f"I want to fly to place {key}.", "When?", "On Monday.", "Which class?")
    return talk(name(key), *said, "Thanks, bye.", "Have a nice flight.", **known)


def score(
    project: Project,
    config: ScoreConfig,
    value: Value,
    keys: Sequence[int] = range(1, COUNT + 1),
    turns: int = 3,
    steps: int = 2,
    adapter: Path | None = None,
) -> None:
    """Stores scores at the ends of the first turns of this many steps, or after each step of an agent's log."""
    used = {} if adapter is None else {"adapter_sha256": sha256(adapter.read_bytes()).hexdigest()}

    def work(conn: sqlite3.Connection) -> None:
        run_id = runs.create(
            conn,
            stage="complete",
            config_hash=config.config_hash,
            params={},
            fingerprints=used,
        )
        score_sets.register(conn, config)
        entries = [
            ScoreEntry(
                key,
                tuple(
                    CurvePoint(
                        steps * t + 1, steps * t + 2, t + 1, value(key, t), 1 - value(key, t)
                    )
                    for t in range(turns)
                ),
                None,
                50,
            )
            for key in keys
        ]
        scores.add_scores(conn, config.config_hash, run_id, entries)
        runs.finish(conn, run_id, "done", "scored")

    project.write(work)


def config(mode: Mode = "base", adapter: str | None = None, key: str = "") -> ScoreConfig:
    """A configuration of the built-in model."""
    return ScoreConfig(key or f"{mode}-{adapter}", mode, "smollm2-135m (bf16)", adapter)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A project with scores of mode base, without truth."""
    path = tmp_path / "p.wb"
    with Project.open(path, create=True) as project:
        fill(project, [record(key) for key in range(1, COUNT + 1)])
        score(project, config("base"), flat)
    return path


def training_run(
    project: Path,
    called: str,
    held_out: Sequence[int],
    train: Sequence[int] = (),
    recipe: Recipe = "boundary",
    **parts: Sequence[int],
) -> None:
    """A run directory with what says which conversations its adapter was trained on.

    Args:
        parts: The parts `valid` and `test` of what is held out.
    """
    run = RunDirectory(runs_folder(project) / called)
    run.path.mkdir(parents=True)
    TrainConfig("base.gguf", recipe=recipe).save(run.config)
    parts = {"held_out": held_out, "test": held_out, "train": train, **parts}
    manifest = {part: [name(key) for key in keys] for part, keys in parts.items()}
    run.manifest.write_text(json.dumps(manifest), "utf-8")


def asked(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    code = main(["validate", str(path), "completeness", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def as_json(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> Any:
    """The JSON of a validation that succeeds."""
    code, out, err = asked(capsys, path, *words, "--json")
    assert code == 0, err
    return json.loads(out)["completeness"]


class TestTable:
    def test_a_row_for_each_score(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Words, probe, base, tuned, then two baselines, all over the same conversations, every figure with an
        interval."""
        with Project.open(path) as project:
            score(project, config("probe"), flat)
            score(project, config("words"), flat)
            score(project, config("tuned", "star-1"), rising)
        found = as_json(capsys, path)

        assert found["n"] == found["asked_for"] == COUNT
        assert [row["name"] for row in found["rows"]] == [
            "words",
            "probe",
            "base",
            "tuned (star-1)",
            "keyword rule",
            "position alone",
        ]
        for row in found["rows"]:
            assert row["scored"] == COUNT
            for key in KEYS:
                low, high = row["ci"][key]
                assert 0 <= low <= row[key] <= high <= 1
        _, _, base, tuned, keywords, position = found["rows"]
        assert (base["auroc"], base["f1"], base["recall"]) == (0.5, 0, 0)
        assert tuned["auroc"] == tuned["f1"] == keywords["f1"] == 1
        assert tuned["ci"]["f1"][0] < 1
        # all have three turns: the place tells every end in the random test, and there is no other place to compare
        assert position["auroc"] == 1
        assert {row["matched"] for row in found["rows"]} == {None}

    def test_the_cut_is_that_of_the_truncation_test(
        self, path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Scores that are as high after the first turn as at the end fail exactly where the seed cuts there."""
        with Project.open(path) as project:
            score(project, config("tuned", "x"), lambda key, turn: 0.1 if turn == 1 else 0.9)
        for seed in ("0", "5"):
            row, *_ = as_json(capsys, path, "--adapter", "x", "--seed", seed)["rows"]
            after_first = sum(cut_at(int(seed), name(key), 3) == 0 for key in range(1, COUNT + 1))
            assert row["recall"] == 1
            assert row["accuracy"] == pytest.approx(1 - after_first / (2 * COUNT))

    def test_as_text(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The text has counts and coverage, a line for each row, and which conversations they are over."""
        code, out, told = asked(capsys, path)
        assert code == 0
        assert (
            "24 conversations of the project, each whole and cut at a random turn (seed 0)" in out
        )
        assert "24 asked for, 0 cannot be cut, 100% of the others are scored by all rows" in out
        assert [line.split("  ")[0] for line in out.splitlines()[4:6]] == [
            "base",
            "keyword rule",
        ]
        head, base = out.splitlines()[3:5]
        assert head.index("AUROC") + len("AUROC") == base.index(".50") + len(".50")
        assert head.index("ECE") + len("ECE") == len(base)
        assert all(line == line.rstrip() for line in out.splitlines())
        assert "No single training run" in told

    def test_at_the_same_step(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Whole conversations of two turns are compared with the second turn of those of three: what only knows the
        last turn's number is at chance there, what knows the end is not. Conclusions name the better baseline only."""
        path = tmp_path / "lengths.wb"
        half = COUNT // 2
        with Project.open(path, create=True) as project:
            short = [
                talk(name(key), f"To place {key}.", "When?", "On Monday.", "Booked.")
                for key in range(1, half + 1)
            ]
            fill(project, [*short, *(record(key) for key in range(half + 1, COUNT + 1))])
            for keys, turns in ((range(1, half + 1), 2), (range(half + 1, COUNT + 1), 3)):
                score(project, config("base"), lambda key, turn: turn / 3, keys, turns)
                score(project, config("tuned"), ends, keys, turns)
        grows, knows, keywords, position = as_json(capsys, path)["rows"]
        assert (grows["matched"], knows["matched"]) == (0.5, 1)
        assert {row["matched_pairs"] for row in (grows, knows, position)} == {half * half}
        low, high = knows["ci"]["matched"]
        assert 0.5 < low < high == 1
        assert position["auroc"] > keywords["auroc"]
        out = asked(capsys, path)[1]
        assert "same step" in out.splitlines()[3]
        assert "against position alone" in out
        assert "against keyword rule" not in out


class TestCoverage:
    def test_the_same_conversations_for_all(
        self, path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """All rows are over the conversations that every row has; scores that cover less than half of the others' get
        no row but a note.
        """
        with Project.open(path) as project:
            score(project, config("tuned", "x"), rising, range(1, 19))
            score(project, config("tuned", "trial"), rising, range(1, 4))
        found = as_json(capsys, path)
        assert found["n"] == 18
        assert found["coverage"] == 0.75
        assert found["left_out"] == [{"name": "tuned (trial)", "scored": 3}]
        _, _, told = asked(capsys, path)
        assert "No row for tuned (trial): it covers 3 of 24 conversations." in told
        few = as_json(capsys, path, "--limit", "3")
        assert (few["n"], few["asked_for"], few["left_out"]) == (3, 3, [])


class TestHeldOut:
    def test_what_selected_a_checkpoint_does_not_test_it(
        self, path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Conversations that selected the checkpoint of an adapter are left out, also where no run is named."""
        training_run(
            path, "one", range(1, 18), range(18, 25), valid=range(13, 18), test=range(1, 13)
        )
        training_run(path, "two", range(1, 25))
        with Project.open(path) as project:
            score(project, config("tuned", "one"), rising)
        found = as_json(capsys, path)

        assert (found["run"], found["n"], found["trained"], found["selecting"]) == (None, 12, 7, 5)
        assert "5 conversations are left out because they selected" in asked(capsys, path)[2]

    def test_several_runs(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """With several runs one has to be named; else all conversations are used that no adapter of the table was
        trained on.
        """
        training_run(path, "one", range(1, 13), range(13, 25))
        training_run(path, "two", range(9, 21), range(1, 9), "paper")
        with Project.open(path) as project:
            score(project, config("tuned", "two"), rising)
        found = as_json(capsys, path)
        assert (found["run"], found["n"], found["trained"]) == (None, 16, 8)
        named = as_json(capsys, path, "--run", "one")
        assert (named["run"], named["n"], named["trained"]) == ("one", 4, 8)
        assert named["rows"][1]["name"] == "tuned paper (two)"
        assert as_json(capsys, path, "--run", "one", "--mode", "base")["n"] == 12
        assert "8 conversations are left out" in asked(capsys, path, "--run", "one")[2]


class TestTruth:
    def test_beside_the_cuts(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The area under the curve against the reward is added; the truth changes nothing else."""
        path = tmp_path / "t.wb"
        with Project.open(path, create=True) as project:
            told = [record(key, truth={"reward": float(key > 6)}) for key in range(1, COUNT + 1)]
            fill(project, told)
            score(project, config("base"), lambda key, turn: 0.2 if key <= 6 else 0.8)
        found = as_json(capsys, path)
        (table,) = found["truths"]
        assert (table["claim"], table["holds"], table["fails"]) == ("reward 0", 6, 18)
        base, keywords, _ = table["rows"]
        assert base["auroc"] == base["ap"] == 1
        assert base["ci"]["auroc"][0] < 1
        assert keywords["auroc"] == 0.5
        out = asked(capsys, path)[1]
        assert "6 yes, 18 no; scored by all rows 24 of 24 conversations of which it is known" in out

    def test_verdicts(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The verdicts of people are a claim beside those of truth, over the conversations that somebody judged; unsure
        ones are left out."""
        with Project.open(path) as project:
            score(project, config("tuned", "x"), lambda key, turn: 0.2 if key <= 6 else 0.8)
            triage = TriageService(project)
            for key in range(1, 13):
                triage.give(key, Verdict.NO if key <= 6 else Verdict.YES)
            triage.give(12, Verdict.UNSURE)
        (table,) = as_json(capsys, path)["truths"]
        assert (table["claim"], table["holds"], table["fails"]) == ("verdict no", 6, 5)
        assert [row["auroc"] for row in table["rows"]][:3] == [0.5, 1, 0.5]


class TestNothingToTell:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--run", "nix"], "no training run 'nix'"),
            (["--config", "x"], "--config has no effect on `validate completeness`"),
            (["--filter", "state:"], "state"),
        ],
    )
    def test_mistakes(
        self, path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
    ) -> None:
        """An unknown run, an option of another metric and an invalid filter are errors."""
        code, _, told = asked(capsys, path, *words)
        assert code == 2
        assert said in told


class TestAsInThePaper:
    def test_what_is_generated_decides(
        self, path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With --paper the decision is whether the end tag is written, whatever the probability; scores without
        such decisions have no row."""
        code, _, err = asked(capsys, path, "--paper")
        assert (code, "--paper" in err) == (2, True)
        with Project.open(path) as project:
            rows = [
                (key, 2 * turn + 1, turn == 2 and key <= COUNT // 2)
                for key in range(1, COUNT + 1)
                for turn in range(3)
            ]
            project.write(lambda conn: scores.add_generated_ends(conn, "base-None", rows))
        (row, *others) = as_json(capsys, path, "--paper")["rows"]
        assert [row["name"], *(one["kind"] for one in others)] == [
            "base", "keywords", "position",
        ]  # fmt: skip
        assert (row["precision"], row["recall"], row["accuracy"]) == (1.0, 0.5, 0.75)
