"""Examples for an evaluator adapter out of samples and of files with known goals, and the run directory they go to."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from engine.completeness.training_data import drawn, text_digest
from engine.conversation import Conversation
from engine.errors import FormatError, ProjectError, UsageError
from engine.folders import version
from engine.formats import Parsed, open_inputs
from engine.goals.questions.phrasing import as_wish_phrase, commanded
from engine.goals.questions.teaching import (
    KINDS,
    Kind,
    Known,
    Lesson,
    Unfinished,
    lessons,
    remaining_reply,
)
from engine.model.prompting import Prompt, parse_prompt, prompt_text
from engine.run_directory.config import TrainConfig
from engine.run_directory.events import RunDirectory
from engine.simulate.samples import Task, sample_conversations, sample_tasks
from engine.stages.remaining import remaining_item
from engine.stages.summarising import summary_item

SHARES: Mapping[Kind, float] = {"summary": 0.3, "label": 0.1, "merge": 0.4, "remaining": 0.2}
"""Of the examples."""

SAMPLES = 240
"""Conversations of the generator that are drawn from."""

SAMPLE_SEEDS = 2_000
"""Added to the seed for the generator, so that neither the demo's samples nor those that judge are among them."""


@dataclass(frozen=True, slots=True)
class Made:
    """The examples of both sides, and how many conversations of which source they are from."""

    train: Sequence[Lesson]
    valid: Sequence[Lesson]
    sources: Mapping[str, int]

    def counts(self, side: Sequence[Lesson]) -> dict[str, int]:
        """Examples of each kind on a side, a yes and a no of the merge question apart."""
        found = Counter(_kind(one) for one in side)
        return {name: found[name] for name in sorted(found)}


def prompts() -> dict[Kind, Prompt]:
    """The prompts that come with the program, by kind."""
    return {kind: parse_prompt(kind, prompt_text(kind)) for kind in KINDS}


def make(files: Sequence[str], count: int, held_out: float, seed: int) -> Made:
    """Examples from the generator and from files.

    Args:
        files: `PATH` or `PATH:N`, where N conversations are drawn; those without a goal are passed over.
        count: Examples to train on, in all; those to validate on are as many as `held_out` makes of them.

    Raises:
        FormatError: A file cannot be read.
        UsageError: There is nothing to learn from, or a number is not one.
    """
    known = [one for file in files for one in known_of(file, seed)]
    scripted = sample_tasks(SAMPLES, SAMPLE_SEEDS + seed)
    wishes = {conversation.external_id: _joined(tasks) for conversation, tasks in scripted}
    known += [
        _known(one, "samples", wishes.get(one.external_id))
        for one in sample_conversations(SAMPLES, SAMPLE_SEEDS + seed)
        if (one.truth or {}).get("complete")
    ]
    rest = [cut_short(conversation, tasks, seed) for conversation, tasks in scripted]

    def kept(texts: Sequence[str]) -> bool:
        return drawn(seed, "side", text_digest(texts)) < held_out

    asked = prompts()
    sides = []
    for side, number in ((False, count), (True, round(count * held_out / (1 - held_out)))):
        sides.append(
            lessons(
                [one for one in known if kept(one.texts) == side],
                [one for one in rest if kept(one.texts) == side],
                asked,
                {kind: round(share * number) for kind, share in SHARES.items()},
                seed,
            )
        )
    train, valid = sides
    if not train or not valid:
        raise UsageError("There are too few conversations to learn from.", "Ask for more examples.")
    return Made(train, valid, dict(Counter(one.source for one in known)))


def known_of(file: str, seed: int, only: Sequence[str] = ()) -> list[Known]:
    """Conversations of a file (`PATH` or `PATH:N`) with a goal.

    Args:
        only: Fields of `truth` that must be true where any conversation of the file has them true.

    Raises:
        FormatError: The file cannot be read, or no conversation of it has a goal.
        UsageError: N is no number.
    """
    path, _, number = file.partition(":")
    if number and not number.isdigit():
        raise UsageError(f"{number!r} in {file} is no number of conversations.")
    (opened,) = open_inputs([path])
    found = [
        record.conversation
        for record in opened.records()
        if isinstance(record, Parsed) and (record.conversation.truth or {}).get("goal")
    ]
    for field in only:
        chosen = [one for one in found if (one.truth or {}).get(field)]
        found = chosen or found
    if not found:
        raise FormatError(f"{file} has no conversation with `truth.goal`.")
    if number:
        found = Random(seed).sample(found, min(int(number), len(found)))
    return [_known(one, name_of(file)) for one in found]


def name_of(file: str) -> str:
    """What a file (`PATH` or `PATH:N`) is called: its name without suffix."""
    return Path(file.partition(":")[0]).name.split(".")[0]


def cut_short(conversation: Conversation, tasks: Sequence[Task], seed: int) -> Unfinished:
    """The conversation up to an answer before all its tasks are done, with the tasks that are left."""
    messages, last = conversation.messages, tasks[-1].done
    places = [
        at
        for at in range(2, last)
        if messages[at - 1].role in ("assistant", "tool") and not messages[at - 1].tool_calls
    ]
    rng = Random(f"cut {seed} {conversation.external_id}")
    at = rng.choice(places) if places else 1
    texts, kept = remaining_item(messages[:at])
    left = tuple(commanded(task.text) for task in tasks if task.done > at)
    return Unfinished(conversation.external_id or "", texts, kept, left)


def write(run: RunDirectory, config: TrainConfig, made: Made, seed: int) -> None:
    """Writes config, data and manifest into a new folder.

    Raises:
        UsageError: The folder is there already.
        ProjectError: It cannot be written.
    """
    try:
        run.path.mkdir(parents=True)
    except FileExistsError as error:
        raise UsageError(f"{run.path} is there already.", "Name another folder.") from error
    except OSError as error:
        raise ProjectError(f"{run.path} cannot be made: {error.strerror}.") from error
    hashes = [_write_lines(run.train, made.train), _write_lines(run.valid, made.valid)]
    config.save(run.config)
    manifest = {
        "version": 1,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "code_version": version(),
        "machine": platform.machine(),
        "seed": seed,
        "train_sha256": hashes[0],
        "valid_sha256": hashes[1],
        "held_out": [one.id for one in made.valid],
        "conversations": dict(made.sources),
        "counts": {"train": len(made.train), "valid": len(made.valid), "cut": 0},
    }
    run.manifest.write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")


def _known(conversation: Conversation, source: str, wish: str | None = None) -> Known:
    truth = conversation.truth or {}
    goal, text = str(truth["goal"]), truth.get("goal_text")
    texts, kept = summary_item(conversation.messages)
    opening = next((m.seen for m in conversation.messages if m.role == "user"), "")
    name = f"{source}:{conversation.external_id}"
    told = wish or as_wish_phrase(goal, text if isinstance(text, str) else None)
    return Known(name, source, texts, kept, opening, goal, told)


def _joined(tasks: Sequence[Task]) -> str:
    return remaining_reply([commanded(task.text) for task in tasks]).strip(" .")


def _write_lines(path: Path, many: Iterable[Lesson]) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for line in _lines(many):
            digest.update(line)
            file.write(line)
    return digest.hexdigest()


def _lines(many: Iterable[Lesson]) -> Iterator[bytes]:
    for one in many:
        line = {
            "id": one.id,
            "prompt": one.prompt.as_params(),
            "texts": one.texts,
            "kept": one.kept,
            "reply": one.reply,
        }
        yield json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n"


def _kind(one: Lesson) -> str:
    return f"{one.prompt.name} {one.reply.strip()}" if one.prompt.end else one.prompt.name
