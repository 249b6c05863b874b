"""A stage whose model is behind endpoints, with a model that answers as a test says."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from engine.base.errors import RequestRefused
from engine.jobs.contract import OnProgress, Progress
from engine.model.catalog import LoadableModel
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.stages import MAX_REFUSED_IN_A_ROW, BlockStage, ModelWork
from engine.project.project import Project

SAFETY = 30.0
"""Seconds after which something hangs; nothing here is timed."""


TOY = LoadableModel("toy", Path(), LoadOptions(), None, endpoint="toy")


class Client:
    """A client that bears so many requests side by side."""

    parallel = 3

    def client_for(self, _model: LoadableModel) -> Client:
        return self

    def load(self, *_options: Any) -> Mapping[str, Any]:
        return {"context": 4096}

    def spent(self) -> str:
        return "7 requests"

    def cancel(self) -> None:
        """Has nothing to cancel."""


class Numbers(BlockStage[int, int]):
    """Answers each number by a function."""

    name = "numbers"
    title = "Numbers"
    params: Mapping[str, Any] = {}

    def __init__(self, project: Project, answer: Callable[[int], int]) -> None:
        super().__init__(project, cast(ModelProcess, Client()), TOY)
        self._answer_of = answer
        self.stored: list[int] = []

    def run(self, run_id: int) -> Iterator[Progress]:
        numbers = range(40)
        yield from self._load_and_answer(run_id, [numbers[:20], numbers[20:]], set(numbers))

    def summary(self) -> str:
        return ""

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[int]:
        def work(numbers: Sequence[int]) -> list[int]:
            return [self._answer_of(number) for number in numbers]

        answers = self._work.each(block, work, lambda reason: -1)
        return [
            answer if answer >= 0 else -number
            for number, answer in zip(block, answers, strict=True)
        ]

    def _key_of(self, entry: int) -> int:
        return abs(entry)

    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[int]) -> None:
        self.stored += entries

    def _tally(self, entries: Sequence[int]) -> None:
        """Counts nothing."""


def test_a_stage_that_asked_nothing_says_no_cost() -> None:
    """The requests of the stage before are not told again by a stage that had nothing to ask."""
    work = ModelWork(cast(ModelProcess, Client()), TOY)
    assert work.spent() == ""
    work.load()
    assert work.spent() == " 7 requests."


def test_side_by_side(project: Project) -> None:
    """Items are asked about side by side, as many as the endpoints bear, across what would be blocks."""
    together = threading.Barrier(Client.parallel - 1)

    def answer(number: int) -> int:
        if number in (19, 20):  # the end of one block and the beginning of the next
            together.wait(SAFETY)
        return number

    stage = Numbers(project, answer)
    assert [progress.done for progress in stage.run(0)][-1] == 40
    assert sorted(stage.stored) == list(range(40))


def test_a_refused_item_costs_itself(project: Project) -> None:
    """An item that the endpoint refuses is stored with its failure, and all others with their answers."""

    def answer(number: int) -> int:
        if number in (0, 7):
            raise RequestRefused("flagged")
        return number

    stage = Numbers(project, answer)
    list(stage.run(0))
    assert sorted(stage.stored) == sorted([-7, *(n for n in range(40) if n != 7)])


def test_an_endpoint_that_refuses_everything(project: Project) -> None:
    """After so many refusals without an answer the run ends with what it cost, and no failure is stored."""
    asked: list[int] = []

    def answer(number: int) -> int:
        asked.append(number)
        raise RequestRefused("no such model")

    stage = Numbers(project, answer)
    with pytest.raises(RequestRefused, match=r"no such model.*7 requests"):
        list(stage.run(0))
    assert not stage.stored
    assert len(set(asked)) <= MAX_REFUSED_IN_A_ROW + Client.parallel
