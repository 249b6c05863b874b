"""Tries a prompt on a few conversations, in several versions and with several models, and stores nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from engine.base.errors import UsageError
from engine.completeness.judging import Judgment
from engine.completeness.remaining_tasks import OpenRequests
from engine.completeness.stages.remaining import remaining_item
from engine.conversations.selection import Selection
from engine.conversations.tables import conversations
from engine.goals.questions import GoalSummary
from engine.model.catalog import LoadableModel
from engine.model.prompt_files import Prompt
from engine.model.records import ModelRequest, Work
from engine.model.service.run_setup import RunSetup
from engine.model.stages import ModelWork
from engine.model.structured_replies import ask, fenced_log

FORMS: Mapping[str, type[msgspec.Struct] | None] = {
    "summary": None, "summary-json": GoalSummary, "paper-summary": None, "remaining": None,
    "remaining-json": OpenRequests, "judge-json": Judgment,
}  # fmt: skip
"""The fields of the reply to each prompt around a log that can be tried; None for a reply in plain text."""


def try_prompt(
    setup: RunSetup, prompts: Mapping[str, Prompt], models: Sequence[str | None], count: int
) -> dict[str, dict[str, str]]:
    """Returns the replies to the first conversations, by conversation and by column: version and model.

    Args:
        prompts: Versions of one prompt by their names.
        models: Names of models; None is the one that the project uses for such work.
        count: Number of conversations.

    Raises:
        UsageError: The prompt is not laid around a log, or there is no such model.
        ModelError: A model cannot be loaded, or refuses a conversation.
    """
    name = next(iter(prompts.values())).name
    if name not in FORMS:
        raise UsageError(
            f"The prompt {name} is not asked of single conversations.",
            f"These can be tried: {', '.join(FORMS)}.",
        )
    with setup.project.reading() as conn:
        ids = Selection(limit=count).ids(conn)
        logs = [
            remaining_item(messages) for _, messages in conversations.conversations_for(conn, ids)
        ]
        names = list(conversations.names(conn, ids).values())
    replies: dict[str, dict[str, str]] = {conversation: {} for conversation in names}
    work: Work = "goals" if "summary" in name else "scoring"
    for model in (setup.models.resolve(ModelRequest(work, model)) for model in models):
        for version, prompt in prompts.items():
            column = f"{version} · {model.label}" if len(prompts) > 1 else model.label
            for conversation, reply in zip(
                names, _replies(setup, model, prompt, logs), strict=True
            ):
                replies[conversation][column] = reply
    return replies


def _replies(
    setup: RunSetup,
    model: LoadableModel,
    prompt: Prompt,
    logs: Sequence[tuple[tuple[str, ...], int]],
) -> list[str]:
    """Returns the reply of one model to each log; of one with fields these, or why it cannot be read."""
    work = ModelWork(setup.process, model)
    work.load()
    form = FORMS[prompt.name]
    if form is None:
        replies = work.replies(logs, prompt, lambda _count, _note: None)
        return [(prompt.reply + reply.text).strip() for reply in replies]
    bodies = [fenced_log(*log, work.room(prompt))[0] for log in logs]
    return [
        reply.failure
        or "\n".join(f"{key}: {value}" for key, value in msgspec.to_builtins(reply.fields).items())
        for reply in ask(work.process, prompt, form, bodies)
    ]
