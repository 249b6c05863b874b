"""Previews of the use of a model, which store nothing: what would leave this machine, and the replies to a prompt."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.base.text import as_json
from engine.completeness.stages.remaining import OpenRequests, remaining_item
from engine.conversations.filters import parse_filter
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables import conversations
from engine.goals.questions import GoalLabel, GoalSummary, MergeVerdict
from engine.model.catalog import LoadableModel
from engine.model.endpoints.capabilities import why_no_fields
from engine.model.endpoints.client import parse_address
from engine.model.endpoints.sender import TOKENS_PRICED
from engine.model.interface import CHARS_PER_TOKEN, LoadOptions
from engine.model.process.requests import ModelClient
from engine.model.prompt_files import Prompt, parse_prompt, shipped_prompt
from engine.model.records import ModelRequest
from engine.model.stages import ModelWork
from engine.model.structured_replies import ask, fenced_log

if TYPE_CHECKING:
    from engine.opener.open_project import OpenProject

REPLY_FORMS: Mapping[str, type[msgspec.Struct] | None] = {
    "summary-json": GoalSummary, "paper-summary": None, "label-json": GoalLabel,
    "merge-json": MergeVerdict, "remaining": None, "remaining-json": OpenRequests,
}  # fmt: skip
"""The type of the reply to each prompt that can be tried; None for a reply in plain text."""
GROUP_PROMPTS = ("label-json", "merge-json")
"""The prompts about groups and pairs of groups; all others are about a log."""


@dataclass(frozen=True, slots=True)
class EgressPreview:
    """What would leave this machine if an endpoint were used.

    Attributes:
        address: URL of the endpoint.
        conversations, characters, tokens: Size of the project; the tokens are estimated.
        cost: Cost of reading the whole project once; None without prices.
        with_personal_data: Number of conversations in which the program finds personal data.
        redacted: Whether personal data is replaced by pseudonyms.
        first_request: Body of the first request for a summary, as it would be sent; None for an embedder, and where
            there is no conversation.
    """

    address: str
    conversations: int
    characters: int
    tokens: int
    cost: float | None
    with_personal_data: int
    redacted: bool
    first_request: Mapping[str, Any] | None

    def lines(self) -> list[str]:
        """Returns lines of text on what would leave this machine, how much that is, and one request in full."""
        cost = "" if self.cost is None else f", {self.cost:,.2f} at its prices,"
        replaced = "replaced by names such as [email 3f2a9c]" if self.redacted else "sent as it is"
        lines = [
            f"To {self.address}: texts of conversations, goals and prompts, as each run needs them.",
            f"{counted(self.conversations, 'conversation')}, {self.characters:,} characters, about"
            f" {self.tokens:,} tokens{cost} if all is read once.",
            f"In {self.with_personal_data:,} of them the program finds personal data, which is {replaced}."
            " It does not find names of people.",
        ]
        if self.first_request is not None:
            request = as_json(self.first_request, indent=1)
            lines += [
                "The first request of a run that summarizes goals, in full:",
                *request.split("\n"),
            ]
        return lines


def egress_preview(workspace: OpenProject, model: str) -> EgressPreview:
    """Returns what would leave this machine if a project used an endpoint; sends nothing.

    Args:
        model: Name or URL of an endpoint.

    Raises:
        UsageError: There is no such endpoint, or it is on this machine.
    """
    named = workspace.endpoints.book.entry(model)
    entry = named or workspace.endpoints.entry_at(model)
    address = entry.address if entry else parse_address(model, leaf="embeddings")
    if address.local:
        raise UsageError(f"{model} is on this machine: nothing leaves it.", "Just use it.")
    # an endpoint that is given by its URL and cannot write a summary is taken for an embedder
    is_writer = named is not None or (entry is not None and why_no_fields(entry.can) is None)
    writer = entry.loadable(LoadOptions()) if entry is not None and is_writer else None
    with workspace.project.reading() as conn:
        ids = ALL.ids(conn)
        characters = sum(conversations.chars(conn, ids))
        personal = len(Selection(parse_filter("personal:any")).ids(conn))
    chars_per_token = entry.can.chars_per_token if entry else None
    tokens = round(characters / (chars_per_token or CHARS_PER_TOKEN))
    prices = entry.prices if entry else None
    return EgressPreview(
        address=address.base,
        conversations=len(ids),
        characters=characters,
        tokens=tokens,
        cost=tokens * prices.read / TOKENS_PRICED if prices else None,
        with_personal_data=personal,
        redacted=entry is None or entry.redacted,
        first_request=workspace.goal_stages().first_request(writer) if writer else None,
    )


class PromptTrial:
    """Asks models one prompt, in its versions, and returns the replies; `interrupt` may be called from any thread.

    Attributes:
        name: Name of the prompt.
    """

    def __init__(self, workspace: OpenProject, name: str, text: str | None = None) -> None:
        """Sends nothing yet.

        Args:
            name: Name of the prompt; the version of the project is tried beside the built-in one if they differ.
            text: A version that is tried in place of that of the project; None for that of the project.

        Raises:
            UsageError: There is no such prompt that can be tried.
        """
        if name not in REPLY_FORMS:
            raise UsageError(
                f"The prompt {name} cannot be tried alone.",
                f"These can be tried: {', '.join(REPLY_FORMS)}.",
            )
        self._workspace, self.name = workspace, name
        built_in, edited = shipped_prompt(name), text or workspace.run_setup.prompts.source(name)
        self._versions = {"built in": built_in}
        if edited != built_in:
            self._versions = {"yours": edited, **self._versions}
        self._is_interrupted = False
        self._work: _TrialWork | None = None

    def replies(self, models: Sequence[str | None], count: int) -> dict[str, dict[str, str]]:
        """Returns the replies about the first conversations, groups or pairs, by their names and then by column.

        A column is a version of the prompt with a model.

        Args:
            models: Names of models; None stands for the one that the project uses for such work.
            count: Number of conversations, groups or pairs.

        Raises:
            Cancelled: `interrupt` was called.
            UsageError: There is no such model.
            NotYet: Nothing was clustered yet, and the prompt is one of `GROUP_PROMPTS`.
            ModelError: A model cannot be loaded, or refuses a question.
        """
        replies: dict[str, dict[str, str]] = {}
        is_scoring = self.name in ("remaining", "remaining-json")
        requests = [ModelRequest("scoring" if is_scoring else "goals", name) for name in models]
        resolved = [self._workspace.run_setup.models.resolve(request) for request in requests]
        label_counts = Counter(model.label for model in resolved)
        for model in resolved:
            # files of one name may lie in several folders
            label = (
                model.label if label_counts[model.label] == 1 else f"{model.label}, {model.path}"
            )
            for version, source in self._versions.items():
                column = f"{version} · {label}" if len(self._versions) > 1 else label
                prompt = parse_prompt(self.name, source)
                for subject, reply in self._ask(model, prompt, count).items():
                    replies.setdefault(subject, {})[column] = reply
        return replies

    def interrupt(self) -> None:
        """Ends the requests in flight, and sends no further ones."""
        self._is_interrupted = True
        if self._work is not None:
            self._work.interrupt()

    def _ask(self, model: LoadableModel, prompt: Prompt, count: int) -> dict[str, str]:
        """Returns the replies of one model about conversations, groups or pairs, by their names.

        A reply with fields becomes a line for each field, or the reason why it cannot be read.
        """
        workspace = self._workspace
        self._work = work = _TrialWork(workspace, model)
        if self._is_interrupted:
            work.interrupt()
        work.load()
        form = REPLY_FORMS[prompt.name]
        if prompt.name in GROUP_PROMPTS:
            bodies = workspace.goal_stages().bodies(model, prompt, count)
        else:
            with workspace.project.reading() as conn:
                ids = Selection(limit=count).ids(conn)
                subjects = _distinct_names(conn, ids)
                rows = conversations.conversations_for(conn, ids)
            logs = {subjects[key]: remaining_item(messages) for key, messages in rows}
            if form is None:
                replies = work.replies(list(logs.values()), prompt, lambda _count, _note: None)
                texts = [(prompt.reply + reply.text).strip() for reply in replies]
                return dict(zip(logs, texts, strict=True))
            room = work.room(prompt)
            bodies = {
                name: fenced_log(pieces, pinned, room)[0] for name, (pieces, pinned) in logs.items()
            }
        assert form is not None  # as the replies about groups have fields
        structured_replies = ask(work.process, prompt, form, list(bodies.values()))
        return {
            name: reply.failure
            or "\n".join(
                f"{key}: {value}" for key, value in msgspec.to_builtins(reply.fields).items()
            )
            for name, reply in zip(bodies, structured_replies, strict=True)
        }


def _distinct_names(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
    """Returns the ids in their sources of conversations, by id; with the key of the text where several share one."""
    names, keys = conversations.names(conn, ids), conversations.text_keys(conn, ids)
    counts = Counter(names.values())
    return {
        key: name if counts[name] == 1 else f"{name} ({keys[key]})" for key, name in names.items()
    }


class _TrialWork(ModelWork):
    """Asks an endpoint through a client of its own, so that the end of a trial cancels no request of a job."""

    def __init__(self, workspace: OpenProject, model: LoadableModel) -> None:
        """Asks nothing yet."""
        super().__init__(workspace.process, model)
        self._endpoints = workspace.endpoints

    @cached_property
    def process(self) -> ModelClient:
        """The client through which the model is asked."""
        name = self.model.endpoint
        return self._process if name is None else self._endpoints.connect(name)


def trial_lines(replies: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Returns the replies of `PromptTrial` as lines of text."""
    lines = []
    for subject, by_column in replies.items():
        lines.append(subject)
        for column, reply in by_column.items():
            indented = reply.replace("\n", "\n" + " " * 6)
            lines.append(f"  {column}:\n      {indented}")
    return lines
