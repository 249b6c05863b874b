"""Simulations in a real project file: two sets of plays; no model runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, cast

from engine.base.errors import WorkbenchError
from engine.jobs.runner import JobRunner
from engine.model.service.run_setup import RunSetup
from engine.project import runs, settings
from engine.project.project import Project
from engine.project.records import Estimate
from engine.simulate import tables as plays
from engine.simulate.records import PlayRow, PlaySetting, TranscriptLine
from engine.simulate.service.service import SETTING, SimulationService
from engine.simulate.simulation_request import SimulationRequest, request_as_json

MODEL = "SmolLM2-135M-Instruct"
SCORES = {"full": (0.75, 0.49), "concat": (0.7, 0.47), "sharded": (0.31, 0.31)}
SHARDED = PlaySetting(
    "3fa2c1d4", "sharded", {"seed": 0}, {"assistant": MODEL, "user": MODEL, "judge": MODEL}
)
FORMS = PlaySetting(
    "77aa00bb", "forms", {"rules": {"schemas": True}}, {"assistant": MODEL, "user": MODEL}
)
TRANSCRIPT = [
    TranscriptLine(
        "user", "user", (("system", "You say one shard."), ("user", "Shards: 1, 2")), "",
        '{"response": "How many apples are left?"}', "end", None, 7, {"temperature": 1.0},
    ),
    TranscriptLine(
        "assistant", "assistant", (("user", "How many apples are left?"),), "",
        "There were 12 apples, so 5 are left.", "length", "the oldest 2 messages", 8,
        {"temperature": 1.0, "json_schema": "{}"},
    ),
]  # fmt: skip
FORM_RESULT = {
    "form": "med", "variant": "modular", "length": 60, "required": [9, 20], "optional": [8, 40],
    "turns": 40, "repetitions": 2,
    "complete": False, "right": None, "ended": "turns", "interactions": [], "fallbacks": {},
}  # fmt: skip


def result_of(condition: str, score: float, task_id: str = "GSM8K-0") -> dict[str, Any]:
    """The result of a sharded conversation."""
    return {
        "task": "math", "task_id": task_id, "condition": condition, "conv_type": condition,
        "model": MODEL, "score": score, "turns": 4, "shards": 5, "revealed": 4, "stand_ins": 0,
        "categories": ["answer_attempt"] if condition == "sharded" else [],
    }  # fmt: skip


Entry = tuple[str, int | None, str | None, Mapping[str, Any], Sequence[TranscriptLine]]
"""Key, id of the conversation, why it broke off, result and transcript of a play."""


def store(
    file: Project,
    setting: PlaySetting,
    entries: Sequence[Entry],
) -> None:
    """Stores plays of a setting as one run."""
    run = file.write(
        lambda conn: runs.create(
            conn, stage="simulate", config_hash="c", params={}, fingerprints={}, code_version="test"
        )
    )
    file.write(lambda conn: plays.register(conn, setting))

    def add(conn: sqlite3.Connection) -> None:
        for key, conversation_id, reason, result, transcript in entries:
            row = PlayRow(
                0, setting.config_hash, setting.kind, key, run, conversation_id, reason, result
            )
            plays.add(conn, row, transcript)

    file.write(add)


def sharded_plays() -> list[Entry]:
    """Two plays under each of three conditions, and one that broke off."""
    ended = [(name, nth) for name in SCORES for nth in range(2)]
    return [
        *(
            (
                f"sharded/math/GSM8K-0/{name}/{nth}",
                1 + at,
                None,
                result_of(name, SCORES[name][nth]),
                TRANSCRIPT,
            )
            for at, (name, nth) in enumerate(ended)
        ),
        ("sharded/math/GSM8K-0/recap/0", None, "the process died", {}, ()),
    ]


def store_plays(file: Project) -> None:
    """Stores a set of forms, then one of sharded conversations."""
    store(file, FORMS, [("forms/med/modular/1", 3, None, FORM_RESULT, TRANSCRIPT)])
    store(file, SHARDED, sharded_plays())


class ScriptedSimulations(SimulationService):
    """Reads a real project; what a model would do is scripted: estimates and runs.

    Attributes:
        asked, started: The requests that were to be estimated and started.
        problem: Raised by the next start.
    """

    def __init__(self, file: Project) -> None:
        setup = RunSetup(file, *cast(Any, (None,) * 3))
        super().__init__(setup, JobRunner(file, lambda event: None))
        self.asked: list[SimulationRequest] = []
        self.started: list[SimulationRequest] = []
        self.problem: WorkbenchError | None = None

    def model_names(self) -> list[str]:
        return [MODEL, "larger-7b"]

    def remember(self, request: SimulationRequest) -> None:
        """Stores what was asked for last."""
        self._project.write(lambda conn: settings.put(conn, SETTING, request_as_json(request)))

    def estimate(self, request: SimulationRequest) -> Estimate:
        self.asked.append(request)
        if request.instructions.endswith(".json"):
            return super().estimate(request)
        return Estimate(12 * request.runs, None, None, 90.0, request.model or MODEL, unit="play")

    def start(self, request: SimulationRequest) -> int:
        if self.problem is not None:
            raise self.problem
        self.started.append(request)
        return 40
