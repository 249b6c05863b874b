"""What crosses the pipe between the program and its model process: one JSON object a line, both ways.

A request is `{"id": n, "type": ..., ...}`. Its answers carry the same id: any number of `progress`, then exactly
one of `result`, `error` or `cancelled`. `{"type": "cancel", "id": n}` asks for the latter.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from engine.completeness.block import (
    BoundaryProbability,
    ItemScore,
    LogItem,
    Question,
    WrittenOn,
)
from engine.completeness.inline_remaining import RemainingRequest
from engine.model.interface import LoadOptions, Sampling
from engine.model.prompting import Prompt
from engine.model.talking import Call, ChatMessage, Completion
from engine.trees.record import TreeRecord, restore
from engine.trees.tree import Tree

VERSION = 1
Frame = dict[str, Any]


def write_frame(stream: BinaryIO, frame: Frame) -> None:
    """Writes one frame and flushes."""
    stream.write(json.dumps(frame, separators=(",", ":")).encode("ascii") + b"\n")
    stream.flush()


def read_frame(stream: BinaryIO) -> Frame | None:
    """Reads one frame; None at the end of the stream."""
    line = stream.readline()
    return json.loads(line) if line.endswith(b"\n") else None


def load_request(
    path: Path, options: LoadOptions, adapter: Path | None, merged: Path | None = None
) -> Frame:
    """Asks for a model to be loaded, unless the same one already is, and an adapter to be switched to."""
    return {
        "type": "load",
        "path": str(path),
        "options": asdict(options),
        "adapter": None if adapter is None else str(adapter),
        "merged": None if adapter is None or merged is None else str(merged),
    }


def question_frame(question: Question) -> Frame:
    """A question as JSON."""
    prompt = None if question.prompt is None else question.prompt.as_params()
    return {"prompt": prompt, "end_tag": question.end_tag}


def question_from(frame: Frame) -> Question:
    """The inverse of `question_frame`."""
    prompt = None if frame["prompt"] is None else Prompt.from_params(frame["prompt"])
    return Question(prompt, frame["end_tag"])


def item_frame(item: LogItem) -> list[Any]:
    """A log to score as JSON."""
    return [list(item.texts), list(item.boundaries), item.kept]


def item_from(frame: list[Any]) -> LogItem:
    """The inverse of `item_frame`."""
    return LogItem(tuple(frame[0]), tuple(frame[1]), frame[2])


def score_frame(score: ItemScore) -> Frame:
    """A score as JSON; Python writes floats so that they are read back bit for bit."""
    return {
        "curve": [[p.boundary, p.p_end, p.p_continue] for p in score.curve],
        "tokens": score.tokens,
        "note": score.note,
        "unscored": score.unscored,
        "written": score.written and asdict(score.written),
    }


def score_from(frame: Frame) -> ItemScore:
    """The inverse of `score_frame`."""
    curve = tuple(BoundaryProbability(*point) for point in frame["curve"])
    written = frame["written"] and WrittenOn(**frame["written"])
    return ItemScore(curve, frame["tokens"], frame["note"], frame["unscored"], written)


def spelling_frame(spelling: RemainingRequest | None) -> Frame | None:
    """A spelling as JSON."""
    if spelling is None:
        return None
    return {"prompt": spelling.prompt.as_params(), "below": spelling.below}


def spelling_from(frame: Frame | None) -> RemainingRequest | None:
    """The inverse of `spelling_frame`."""
    if frame is None:
        return None
    return RemainingRequest(Prompt.from_params(frame["prompt"]), frame["below"])


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A tree as grown in the model process.

    Attributes:
        answer: Tokens of the recorded answer; empty without one.
        answer_log_probs: Natural log-probabilities of its first tokens.
        prompt_tokens: Tokens before the root.
        note: What of the log was left out, or None.
    """

    tree: Tree
    answer: tuple[int, ...]
    answer_log_probs: tuple[float, ...]
    prompt_tokens: int
    note: str | None


def tree_from(frame: Frame) -> GrownTree:
    """A grown tree from JSON."""
    return GrownTree(
        restore(TreeRecord.from_frame(frame["tree"])),
        tuple(frame["answer"]),
        tuple(frame["answer_log_probs"]),
        frame["prompt_tokens"],
        frame["note"],
    )


def sampling_from(frame: Frame) -> Sampling:
    """Sampling settings from JSON."""
    return Sampling(**frame)


def call_frame(call: Call) -> Frame:
    """A call as JSON: what determines its reply."""
    frame = asdict(call)
    del frame["module"], frame["role"]
    return frame


def call_from(frame: Frame) -> Call:
    """The inverse of `call_frame`; who asks is not known."""
    messages = tuple(ChatMessage(**message) for message in frame["messages"])
    given = {**frame, "messages": messages, "stop": tuple(frame["stop"])}
    return Call("", "assistant", **{**given, "sampling": sampling_from(frame["sampling"])})


def completion_frame(said: Completion) -> Frame:
    """A reply as JSON."""
    return asdict(said)


def completion_from(frame: Frame) -> Completion:
    """The inverse of `completion_frame`."""
    return Completion(**frame)


def vectors_frame(vectors: NDArray[np.float32]) -> Frame:
    """Vectors as JSON: shape and little-endian float32 in base64."""
    data = np.ascontiguousarray(vectors, dtype="<f4").tobytes()
    return {"shape": list(vectors.shape), "data": base64.b64encode(data).decode("ascii")}


def vectors_from(frame: Frame) -> NDArray[np.float32]:
    """The inverse of `vectors_frame`."""
    data = base64.b64decode(frame["data"])
    return np.frombuffer(data, dtype="<f4").reshape(frame["shape"]).astype(np.float32)
