"""Scores conversations that are given as messages, without a project."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.base.errors import WorkbenchError
from engine.completeness.records import Mode
from engine.completeness.scoring_request import ScoringRequest
from engine.completeness.service.one_conversation import ConversationScore
from engine.opener.open_project import OpenProject

__all__ = ["ConversationScore", "Probability", "complete", "end_model", "score"]

_guard = threading.Lock()
"""Held by whoever opens, uses or closes the project: it scores one conversation at a time."""

_opened: list[tuple[OpenProject, str]] = []
"""The project that scores and its folder, once there was a call; else empty."""


class Probability(float):
    """A probability that says what measured it, so that a failing `assert` does.

    Attributes:
        how: Mode, model and adapter, and whether they were tuned to these conversations.
    """

    how: str

    def __new__(cls, value: float, how: str) -> Probability:
        self = super().__new__(cls, value)
        self.how = how
        return self

    def __reduce__(self) -> tuple[type[Probability], tuple[float, str]]:
        return Probability, (float(self), self.how)

    def __repr__(self) -> str:
        return f"{float(self):.3f} by {self.how}"


def score(
    messages: Sequence[Mapping[str, Any]],
    *,
    adapter: str | Path | None = None,
    model: str | None = None,
    mode: Mode | None = None,
    context: int | None = None,
    remaining: bool = False,
) -> ConversationScore:
    """Scores one conversation at every place where it can end.

    The model is loaded on the first call and stays for the process; `end_model` ends it. Nothing is stored.

    Args:
        messages: In the shape of any chat API.
        adapter: Name or file of an adapter; the mode is then `tuned`.
        model: Name or path; None is the one that comes with the program.
        mode: None takes `tuned` where you trained or added an adapter for the model, else `probe` with the probe that
            comes with the program, else `base`.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        remaining: Write the remaining tasks, where `p` is below .5; takes a second or more.

    Raises:
        WorkbenchError: The messages cannot be read, or there is no such model or adapter.

    >>> found = score([
    ...     {"role": "user", "content": "Book a table for two at Luigi's, tonight at eight."},
    ...     {"role": "assistant", "content": "Done: a table for two at Luigi's, tonight at eight."},
    ...     {"role": "user", "content": "Thanks, that is all. Bye!"},
    ...     {"role": "assistant", "content": "Enjoy your evening. Goodbye!"},
    ... ])
    >>> [point.step for point in found.curve]
    [2, 4]
    >>> found.p == found.curve[-1].p_end_normalised
    True
    >>> print(found.how)  # doctest: +ELLIPSIS
    probe · smollm2-135m ... (the probe that comes with the program, not tuned to your conversations)
    """
    request = ScoringRequest(
        mode=mode,
        model=model,
        adapter=None if adapter is None else str(adapter),
        context=context,
        remaining=remaining,
    )
    with _guard:
        if not _opened:
            _opened.append(_open())
        ((workspace, _),) = _opened
        return workspace.conversation_scorer.score(messages, request)


def complete(
    messages: Sequence[Mapping[str, Any]],
    *,
    adapter: str | Path | None = None,
    model: str | None = None,
    mode: Mode | None = None,
    context: int | None = None,
) -> Probability:
    """Returns the probability that a conversation is complete, for the tests of another program.

    Args:
        adapter, model, mode, context: As in `score`.

    Raises:
        WorkbenchError: As in `score`; or the conversation is not scored, with the reason: no number would be honest.

    >>> p = complete([
    ...     {"role": "user", "content": "Cancel my order 17."},
    ...     {"role": "assistant", "content": "Which order do you mean?"},
    ... ])
    >>> 0 <= p <= 1
    True
    >>> p.how.startswith("probe")
    True
    """
    result = score(messages, adapter=adapter, model=model, mode=mode, context=context)
    if result.p is None:
        raise WorkbenchError(f"The conversation is not scored: {result.reason}.")
    return Probability(result.p, result.how)


def end_model() -> None:
    """Ends the model process that `score` and `complete` use; their next call starts another."""
    with _guard:
        while _opened:
            workspace, folder = _opened.pop()
            workspace.close()
            shutil.rmtree(folder, ignore_errors=True)


def _open() -> tuple[OpenProject, str]:
    """Returns an empty project in a temporary folder, which models and prompts are looked up in."""
    folder = tempfile.mkdtemp(prefix="workbench-")
    workspace = OpenProject(Path(folder) / "empty.wb", create=True)
    atexit.register(end_model)
    return workspace, folder
