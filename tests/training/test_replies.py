"""What a run learns from prompts with the replies wanted, and how it is validated by them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.completeness.logs import log_tokens
from engine.model.interface import LoadOptions
from engine.model.prompting import Prompt, frame
from engine.run_directory.config import TrainConfig
from engine.run_directory.events import RunDirectory
from engine.worker.asker import ProcessAsker
from engine.worker.client import ModelProcess
from tests.training.tiny_runs import events, finished, tiny_base, tiny_run
from training.base import load_base
from training.examples import DataError
from training.replies import (
    CHOICE_WEIGHT,
    Wanted,
    read_wanted,
    reply_example,
    reply_examples,
    validate_replies,
)

WRITTEN = Prompt("summary", False, "Read.\n", "\nWhat?", " They want", "", "", ("\n",), 12)
CHOICE = Prompt("merge", False, "Read.\n", "\nSame?\n", "", "Y", "N", (), 0)
LIMIT = 400


def wanted(number: int, prompt: Prompt = WRITTEN, reply: str = " a lamp.") -> Wanted:
    """One example about a short log."""
    return Wanted(f"ask-{number}", prompt, (f"one {number}", "\n\ntwo"), 0, reply)


def choices(count: int, start: int = 0) -> list[Wanted]:
    """Yes where the text says `same`, no where it says `other`, by turns."""
    return [
        replace(
            wanted(number, CHOICE, "N" if number % 2 else "Y"),
            texts=(f"{'other' if number % 2 else 'same'} {number}",),
        )
        for number in range(start, start + count)
    ]


def line(one: Wanted) -> dict[str, Any]:
    """The line of a data file."""
    return {
        "id": one.id, "prompt": one.prompt.as_params(), "texts": one.texts, "kept": one.kept, "reply": one.reply,
    }  # fmt: skip


def write(path: Path, many: list[Wanted]) -> None:
    """A data file."""
    path.write_text("".join(json.dumps(line(one)) + "\n" for one in many), "utf-8")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Path]:
    """A tiny model, its tokenizer, and the same as a GGUF file."""
    hub, gguf = tiny_base(tmp_path_factory.mktemp("base"))
    model, tokenizer = load_base(TrainConfig(base=str(hub), precision="f32"))
    return model.eval(), tokenizer, gguf


class TestExamples:
    def test_a_written_reply_is_learned_with_its_end(self, base: tuple[Any, Any, Path]) -> None:
        """What is read is the prompt laid around the log by `frame`; learned are the reply and the end token alone."""
        _, tokenizer, _ = base
        one = wanted(1)
        made = reply_example(tokenizer, one, LIMIT)
        around = frame(WRITTEN, tokenizer)
        log, _ = log_tokens(tokenizer, one.texts, 0, 300)

        start = [*around.head, *log, *around.tail]
        assert made.tokens[: len(start)] == start
        assert made.targets == list(range(len(start), len(made.tokens)))
        assert made.tokens[len(start) :] == [*tokenizer.tokenize(one.reply), tokenizer.end_token]

    def test_a_choice_has_no_end_and_weighs_more(self, base: tuple[Any, Any, Path]) -> None:
        """Of a choice only the answer is learned, and it weighs as several tokens of a sentence."""
        _, tokenizer, _ = base
        made = reply_example(tokenizer, wanted(1, CHOICE, "Y"), LIMIT)

        assert [made.tokens[at] for at in made.targets] == tokenizer.tokenize("Y")
        assert made.weights == [CHOICE_WEIGHT]

    def test_a_long_text_keeps_prompt_and_reply(self, base: tuple[Any, Any, Path]) -> None:
        """However long the text, all fits the limit, and the question and the whole reply are there."""
        _, tokenizer, _ = base
        one = replace(wanted(1), texts=tuple(f"\n\nstep {at}" for at in range(200)))
        made = reply_example(tokenizer, one, LIMIT)

        assert len(made.tokens) <= LIMIT
        end = tokenizer.tokenize("step 199\nWhat? They want a lamp.")
        assert made.tokens[-len(end) - 1 : -1] == end

    def test_no_room(self, base: tuple[Any, Any, Path]) -> None:
        """A limit without room for the text beside its prompt is refused, with what to do."""
        with pytest.raises(DataError, match="no room for the text of ask-1"):
            reply_examples(base[1], [wanted(1)], 60)


class TestFile:
    def test_what_is_written_is_read(self, tmp_path: Path) -> None:
        """A line holds all of an example."""
        many = [wanted(1), *choices(2)]
        write(tmp_path / "train.jsonl", many)

        assert read_wanted(tmp_path / "train.jsonl") == many

    @pytest.mark.parametrize(
        "changed",
        [
            {"reply": ""},
            {"texts": []},
            {"prompt": {}},
            {"prompt": CHOICE.as_params(), "reply": "Maybe"},
        ],
    )
    def test_a_line_that_is_no_example_is_named(
        self, tmp_path: Path, changed: dict[str, Any]
    ) -> None:
        """The error says which line of which file."""
        path = tmp_path / "train.jsonl"
        write(path, [wanted(1)])
        with path.open("a") as file:
            file.write(json.dumps(line(wanted(2)) | changed) + "\n")

        with pytest.raises(DataError, match=r"Line 2 of train\.jsonl"):
            read_wanted(path)


class TestValidation:
    def test_it_reads_what_is_asked(self, base: tuple[Any, Any, Path], tmp_path: Path) -> None:
        """The loss over choices is what the model process says of the same questions."""
        model, tokenizer, gguf = base
        many = choices(6)
        limits = LoadOptions(context=512)
        process = ModelProcess(tmp_path / "model.log")
        try:
            process.load(gguf, limits, None)
            found = ProcessAsker(process).log_probs(CHOICE, [(o.texts[0], o.reply) for o in many])
        finally:
            process.close()
        validation = validate_replies(model, tokenizer, many, LIMIT)

        assert validation.loss == pytest.approx(-sum(o.total for o in found) / len(found), abs=1e-3)
        assert validation.pairs == 6
        assert validation.auroc is not None

    def test_nothing_to_choose(self, base: tuple[Any, Any, Path]) -> None:
        """Replies alone give a loss and no AUROC."""
        validation = validate_replies(base[0], base[1], [wanted(1), wanted(2)], LIMIT)

        assert (validation.auroc, validation.f1, validation.pairs) == (None, None, 0)
        assert validation.loss > 0


class TestRun:
    @pytest.fixture(scope="class")
    def whole(self, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
        """A run on choices and replies."""
        run = tiny_run(tmp_path_factory.mktemp("evaluator") / "run", recipe="evaluator", epochs=4.0)
        write(run.train, [*choices(8), *(wanted(at) for at in range(4))])
        write(run.valid, [*choices(6, 100), wanted(100)])
        assert finished(run) == 0, run.log.read_text()
        return run

    def test_it_learns(self, whole: RunDirectory) -> None:
        """The loss over examples it was not trained on falls, and the best is that of the lowest."""
        found = events(whole, "valid")
        best = min(found, key=lambda one: one["loss"])

        assert found[-1]["loss"] < found[0]["loss"]
        assert events(whole, "done")[0]["best_step"] == best["step"]
        assert [one["step"] for one in found if one["best"]][-1] == best["step"]

    def test_one_reply_of_each_prompt_is_told_before_and_after(self, whole: RunDirectory) -> None:
        """With what was wanted beside what the model says."""
        told = [(one["step"], one["wanted"]) for one in events(whole, "reply")]
        last = events(whole, "step")[-1]["step"]

        assert sorted(told) == [
            (step, words) for step in (0, last) for words in (" They want a lamp.", "Y")
        ]

    def test_the_card_says_how_it_was_made(self, whole: RunDirectory) -> None:
        """Recipe, examples and parity with llama.cpp."""
        card = json.loads(whole.card.read_text())

        assert (card["recipe"], card["conversations"]) == ("evaluator", 12)
        assert card["parity"]["passed"]
