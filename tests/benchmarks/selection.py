"""What the figures of an adapter gain when its checkpoint is selected on the conversations that test it.

    python -m tests.benchmarks.selection train PROJECT FOLDER --train 100 --held-out 120 --every 5
    python -m tests.benchmarks.selection table FOLDER...

`train` trains a run that validates on all held-out conversations, and writes the score of every boundary at every
validation into FOLDER. `table` then draws random parts of these conversations again and again, selects a checkpoint on
some and tests it on others. No model is asked for the table.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from engine.base.statistics.bootstrap import figures
from engine.completeness.training_data import (
    MIN_BOUNDARIES_TO_CUT,
    SELECTION_SHARE,
    Usable,
    drawn,
    items,
    usable,
)
from engine.completeness.truncation import truncate
from engine.conversations.filters import ListQuery
from engine.conversations.tables import selecting
from engine.model.catalog import embedded_model
from engine.project.project import Project
from engine.training.config import TrainConfig
from engine.training.events import EventLog, RunDirectory
from training.examples import Log
from training.validation import Validation, best_validation

DRAWS = 2_000
SCORES = "scores.jsonl"
"""File of a run: for each conversation of each validation, in order, its id and the score at each boundary."""

Scores = Mapping[str, Sequence[float]]
"""Conversation -> score at each of its boundaries."""


def main(words: Sequence[str]) -> None:
    """Trains a run, or prints the table of several."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train")
    train.add_argument("project", type=Path)
    train.add_argument("folder", type=Path)
    train.add_argument("--train", type=int, default=100, help="conversations to train on")
    train.add_argument("--held-out", type=int, default=120, help="conversations to validate on")
    train.add_argument("--every", type=int, default=5, help="steps between validations")
    train.add_argument("--epochs", type=float, default=1.0)
    train.add_argument("--batch", type=int, default=2)
    train.add_argument("--seed", type=int, default=0)
    train.add_argument("--threads", type=int, default=1)
    train.add_argument("--minutes", type=float, default=25.0, help="the run ends after so many")
    table = commands.add_parser("table")
    table.add_argument("folders", type=Path, nargs="+")
    table.add_argument("--last", type=int, default=0, help="of so many validations (default: all)")
    asked = parser.parse_args(words)
    if asked.command == "train":
        _train(asked)
    else:
        _table(asked.folders, asked.last)


def _train(asked: argparse.Namespace) -> None:
    from training import run
    from training import validation as curves

    run_directory = RunDirectory(asked.folder)
    run_directory.path.mkdir(parents=True)
    _write_data(asked, run_directory)
    config = TrainConfig(
        base=str(embedded_model()), epochs=asked.epochs, batch=asked.batch, learning_rate=5e-4,
        valid_every=asked.every, seed=asked.seed, threads=asked.threads,
    )  # fmt: skip
    config.save(run_directory.config)
    timer = threading.Timer(60 * asked.minutes, run_directory.stop.touch)
    timer.daemon = True
    timer.start()
    events, measure = EventLog(run_directory.events), curves.curve
    with (run_directory.path / SCORES).open("w", encoding="utf-8") as file:

        def recorded(model: Any, tokenizer: Any, log: Log, *more: Any) -> list[curves.Point]:
            points = measure(model, tokenizer, log, *more)
            file.write(json.dumps([log.id, [point.value for point in points]]) + "\n")
            file.flush()
            return points

        # the last validation is all that is wanted: no samples, no adapter file, no comparison with llama.cpp
        with (
            mock.patch.object(curves, "curve", recorded),
            mock.patch.object(run, "write_samples"),
            mock.patch.object(run, "_finish"),
        ):
            run.train(run_directory, config, events)
    events.close()


def _write_data(asked: argparse.Namespace, run: RunDirectory) -> None:
    """Writes the data files of a run with the first conversations of a random order that can be cut."""
    with Project.open(asked.project, read_only=True) as project, project.reading() as conn:
        ids = selecting.ids(conn, ListQuery())
        every: dict[bytes, Usable] = {}
        for page in usable(conn, ids):
            every.update(
                {one.digest: one for one in page if one.boundaries >= MIN_BOUNDARIES_TO_CUT}
            )
        order = sorted(every.values(), key=lambda one: drawn(asked.seed, "order", one.digest))
        parts = order[: asked.train], order[asked.train : asked.train + asked.held_out]
        for path, part in zip((run.train, run.valid), parts, strict=True):
            with path.open("w", encoding="utf-8") as file:
                for key, item in items(conn, [one.key for one in part]):
                    line = {
                        "id": str(key), "texts": item.texts, "boundaries": item.boundaries,
                        "kept": item.pinned_pieces,
                    }  # fmt: skip
                    file.write(json.dumps(line) + "\n")


@dataclass(frozen=True, slots=True)
class Figures:
    """What one draw of parts and cuts gave, as (AUROC, F1).

    Attributes:
        published: On the conversations that selected the checkpoint, as with two parts.
        elsewhere: On the same conversations, of the checkpoint that the other half selects.
        two_parts: Of the same checkpoint as `published`, on conversations that neither way of selecting saw.
        three_parts: Of the checkpoint that a third of these others selects, on the same.
        last: Of the last checkpoint, on the same.
    """

    published: tuple[float, float]
    elsewhere: tuple[float, float]
    two_parts: tuple[float, float]
    three_parts: tuple[float, float]
    last: tuple[float, float]


def _draw(validations: Sequence[Scores], random: np.random.Generator) -> Figures:
    """Draws half of the conversations to test both ways on; the other half is what a run would hold out."""
    names = random.permutation(sorted(validations[0])).tolist()
    seed = int(random.integers(1 << 30))
    test, held_out = names[: len(names) // 2], names[len(names) // 2 :]
    third = held_out[: max(1, round(len(held_out) * SELECTION_SHARE))]

    def selected(part: Sequence[str]) -> int:
        return best_validation([_validation(scores, part, seed) for scores in validations])

    def on(part: Sequence[str], checkpoint: int) -> tuple[float, float]:
        found = _validation(validations[checkpoint], part, seed)
        return found.auroc or 0.5, found.f1 or 0.0

    by_all, by_third = selected(held_out), selected(third)
    return Figures(
        on(held_out, by_all),
        on(held_out, selected(test)),
        on(test, by_all),
        on(test, by_third),
        on(test, len(validations) - 1),
    )


def _validation(scores: Scores, part: Sequence[str], seed: int) -> Validation:
    whole, cut = truncate({name: scores[name] for name in part}, seed)
    found = figures([*whole, *cut], [True] * len(whole) + [False] * len(cut))
    return Validation(0.0, found["auroc"], found["f1"], len(whole))


def _table(folders: Sequence[Path], last: int) -> None:
    """Prints means over draws of parts and cuts, each with the range of 95% of the draws."""
    for folder in folders:
        measured = _read(RunDirectory(folder))[-last:]
        random = np.random.default_rng(0)
        for exchanged in (False, True):
            draws = [
                _draw(_exchanged(measured, random) if exchanged else measured, random)
                for _ in range(DRAWS)
            ]
            as_measured = "exchanged, so that none is better" if exchanged else "as measured"
            print(
                f"{folder.name}: {len(measured[0])} held-out conversations,"
                f" {len(measured)} validations {as_measured}"
            )
            _print_draws(draws)


def _exchanged(validations: Sequence[Scores], random: np.random.Generator) -> list[Scores]:
    """The validations with the scores of each conversation exchanged among them at random: then none is better than
    another in truth, and all that selecting one gains is chance."""
    orders = {name: random.permutation(len(validations)) for name in validations[0]}
    return [
        {name: validations[order[nth]][name] for name, order in orders.items()}
        for nth in range(len(validations))
    ]


def _print_draws(draws: Sequence[Figures]) -> None:
    for nth, name in enumerate(("AUROC", "F1")):
        for kind in ("published", "elsewhere", "two_parts", "three_parts", "last"):
            values = [getattr(one, kind)[nth] for one in draws]
            print(f"  {name:<6} {kind:<24} {_with_range(values)}")
        leak = [one.published[nth] - one.elsewhere[nth] for one in draws]
        price = [one.three_parts[nth] - one.two_parts[nth] for one in draws]
        print(f"  {name:<6} {'leak':<24} {_with_range(leak)}")
        print(f"  {name:<6} {'three parts - two parts':<24} {_with_range(price)}")


def _with_range(values: Sequence[float]) -> str:
    low, high = np.quantile(values, (0.025, 0.975))
    error = np.std(values) / len(values) ** 0.5
    return f"{np.mean(values):+.4f} ({low:+.3f} to {high:+.3f}), error of the draw {error:.4f}"


def _read(run: RunDirectory) -> list[Scores]:
    """The scores of each validation, over the conversations that all have: the last one may have been cut off."""
    count = len(run.valid.read_text("utf-8").splitlines())
    lines = [json.loads(line) for line in (run.path / SCORES).read_text("utf-8").splitlines()]
    found: list[Scores] = [dict(lines[at : at + count]) for at in range(0, len(lines), count)]
    common = set.intersection(*map(set, found))
    return [{name: scores[name] for name in sorted(common)} for scores in found]


if __name__ == "__main__":
    main(sys.argv[1:])
