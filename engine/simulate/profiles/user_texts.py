"""Collects the words and profiles of users as a prediction task, from one project or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from engine.base.conversation import Conversation
from engine.base.errors import NotFound, NotYet
from engine.conversations.filters import Filter, ListQuery
from engine.conversations.tables import conversations, selecting
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.results.metrics.learners import is_signs
from engine.results.metrics.profile_prediction import Split, UserText, splits_by_person
from engine.results.metrics.traits import Names, names_in, person_of, traits_of
from engine.simulate.recsim.people import vocabulary

TRANSLATED = "content_zh"
"""Field of simulated conversations that holds the Chinese translation of each message."""


@dataclass(frozen=True, slots=True)
class PredictionTask:
    """Conversations with splits into training and test parts.

    Attributes:
        spoken: The words and profile of each conversation's user.
        ids: Conversation ids in their project, in the order of `spoken`.
        splits: Training and test parts as indices of `spoken`.
        notes: Sentences to show with the results, for example on translations.
    """

    spoken: tuple[UserText, ...]
    ids: tuple[int, ...]
    splits: tuple[Split, ...]
    notes: tuple[str, ...] = ()

    @property
    def predicted(self) -> list[int]:
        """Indices of all test conversations, ascending."""
        return sorted(at for split in self.splits for at in split.test)


def within(project: Project, wanted: Filter, *, seed: int, limit: int | None) -> PredictionTask:
    """Returns a task in one project: cross-validation in which no person is in both parts.

    Raises:
        UsageError: Fewer than two people have a profile.
    """
    found = _read(project, wanted)
    names = _names([truth for _, _, truth in found])
    spoken = tuple(_spoken(one, truth, names, translated=False) for _, one, truth in found)
    people = [one.person for one in spoken]
    if len(set(people)) < 2:
        raise NotYet(
            "Profiles of fewer than two people are known here.",
            "Import conversations with `preference`, `profile_mapped` or `profile`.",
        )
    splits = _limited(splits_by_person(people, seed=seed), limit, seed)
    return PredictionTask(spoken, tuple(key for key, _, _ in found), splits)


def across(
    project: Project, other: Project, wanted: Filter, *, seed: int, limit: int | None
) -> PredictionTask:
    """Returns a task over two projects: trains on one and tests on the other.

    If only the test project is in Chinese, the training texts are the Chinese translations of the first project.

    Raises:
        UsageError: One of the projects has no profiles.
    """
    train, test = _read(project, wanted), _read(other, Filter())
    if not train or not test:
        where = project if not train else other
        raise NotFound(
            f"{where.path} has no profiles.",
            "Import conversations with `preference`, `profile_mapped` or `profile`.",
        )
    names = _names([truth for _, _, truth in (*train, *test)])
    asked = [_spoken(one, truth, names, translated=False) for _, one, truth in test]
    known = [_spoken(one, truth, names, translated=False) for _, one, truth in train]
    notes: list[str] = []
    if is_signs([one.text for one in asked]) and not is_signs([one.text for one in known]):
        if any(_translations(one, truth) for _, one, truth in train):
            known = [_spoken(one, truth, names, translated=True) for _, one, truth in train]
            notes.append(f"Learned from the Chinese translations ({TRANSLATED}).")
        else:
            notes.append(
                "The conversations learned from are in another script and have no translation: their words do not help."
            )
    met = {one.person for one in known} & {one.person for one in asked}
    if met:
        notes.append(f"{len(met):,} of the people predicted are among those fitted to.")
    first = len(known)
    split = Split(tuple(range(first)), tuple(range(first, first + len(asked))))
    ids = tuple(key for key, _, _ in (*train, *test))
    return PredictionTask((*known, *asked), ids, _limited([split], limit, seed), tuple(notes))


def _read(project: Project, wanted: Filter) -> list[tuple[int, Conversation, dict[str, Any]]]:
    """Returns id, conversation and truth of every matching conversation with a profile."""
    with project.reading() as conn, snapshot(conn):
        ids = selecting.ids(conn, ListQuery(wanted))
        return [
            (key, one, one.truth)
            for key, _, one in conversations.export_conversations(conn, ids)
            if one.truth is not None and traits_of(one.truth, {})
        ]


def _names(truths: Sequence[Mapping[str, Any]]) -> Names:
    """Returns English names of Chinese answers: the closed vocabulary, and those from profiles in both languages."""
    known = {field: {zh: en for en, zh in words.items()} for field, words in vocabulary().items()}
    for field, words in names_in(truths).items():
        known[field] = {**known.get(field, {}), **words}
    return known


def _spoken(
    one: Conversation, truth: Mapping[str, Any], names: Names, *, translated: bool
) -> UserText:
    texts = _translations(one, truth) if translated else []
    texts = texts or [message.content for message in one.messages if message.role == "user"]
    return UserText("\n".join(texts), person_of(truth), traits_of(truth, names))


def _translations(one: Conversation, truth: Mapping[str, Any]) -> list[str]:
    """Returns the user's messages in Chinese; [] unless all of them are translated."""
    others = truth.get("messages")
    if not isinstance(others, list) or len(others) != len(one.messages):
        return []
    found = [
        other.get(TRANSLATED) if isinstance(other, Mapping) else None
        for message, other in zip(one.messages, others, strict=True)
        if message.role == "user"
    ]
    return [text for text in found if isinstance(text, str)] if all(found) else []


def _limited(splits: Sequence[Split], limit: int | None, seed: int) -> tuple[Split, ...]:
    """Returns splits with at most `limit` test conversations, drawn with the seed."""
    every = sorted(at for one in splits for at in one.test)
    if limit is None or limit >= len(every):
        return tuple(splits)
    kept = frozenset(Random(seed).sample(every, limit))
    found = (Split(one.train, tuple(at for at in one.test if at in kept)) for one in splits)
    return tuple(one for one in found if one.test)
