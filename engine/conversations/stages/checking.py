"""The stage that looks for languages, personal data and near duplicates after an import."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from engine.conversations import minhash
from engine.conversations.records import CheckCounts
from engine.conversations.shared_text import ROLES, SharedText
from engine.conversations.shingle_overlap import shingles
from engine.conversations.tables import facets, shared_text
from engine.conversations.text_checks import LANGUAGE_SAMPLE_CHARACTERS, Kind, kinds, language
from engine.jobs.contract import CpuStage, Progress
from engine.project import runs
from engine.project.project import Project

BATCH = 200
"""Conversations of one transaction."""


class CheckStage(CpuStage):
    """Looks at every conversation that was not looked at in its present text.

    Attributes:
        languages: Number of conversations by language; None for those where it is not clear.
        personal: Number of conversations with each kind of personal data.
        copies: Number of conversations that have near duplicates, in the whole project.
        groups: Number of groups that they form.
    """

    name: ClassVar[str] = "check"
    title: ClassVar[str] = "Looking for languages, personal data and copies"

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self.languages: Counter[str | None] = Counter()
        self.personal: Counter[Kind] = Counter()
        self.copies = self.groups = 0

    @property
    def params(self) -> Mapping[str, Any]:
        """Empty: nothing can be chosen."""
        return {}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Commits what was found batch by batch, then the groups of near duplicates.

        Raises:
            Cancelled: `interrupt` was called.
        """
        with self._project.reading() as conn:
            ids = facets.unchecked(conn)
            shared = shared_text.stored(conn)
        for start in range(0, len(ids), BATCH):
            with self._project.reading() as conn:
                entries = [self._checked(conn, key, shared) for key in ids[start : start + BATCH]]
            done = start + len(entries)

            self._project.write(partial(_store, entries=entries, run=(run_id, done, len(ids))))
            yield Progress(done, len(ids))
        if not len(ids):
            return
        yield Progress(len(ids), len(ids), "comparing")
        with self._project.reading() as conn:
            keys, signatures = facets.signatures(conn)
        groups = minhash.near_duplicate_groups(keys, signatures)
        self._check()
        self._project.write(lambda conn: facets.put_copies(conn, groups))
        self.groups, self.copies = len(groups), sum(map(len, groups))

    def summary(self) -> str:
        """What was found, in one sentence."""
        languages = {code or "": count for code, count in self.languages.items()}
        return CheckCounts(
            languages,
            {str(kind): count for kind, count in self.personal.items()},
            self.copies,
            self.groups,
        ).in_words()

    def as_json(self) -> dict[str, Any]:
        """The counts as JSON values."""
        return {
            "languages": {code or "unknown": count for code, count in self.languages.items()},
            "personal": dict(self.personal),
            "copies": self.copies,
            "copy_groups": self.groups,
        }

    def _checked(self, conn: sqlite3.Connection, key: int, shared: SharedText) -> facets.CheckEntry:
        self._check()
        rows = facets.checked_texts(conn, key)
        personal = frozenset(
            kind for _, content, calls in rows for kind in kinds(content) | kinds(calls)
        )
        said = [(role, shared.without(role, content)) for role, content, _ in rows if role in ROLES]
        code = _language([text for role, text in said if role == "user"]) or _language(
            [text for _, text in said]
        )
        self.languages[code] += 1
        self.personal.update(personal)
        text = " ".join(text for _, text in said)
        return facets.CheckEntry(key, code, personal, minhash.signature(shingles(text)))


def _store(
    conn: sqlite3.Connection, entries: list[facets.CheckEntry], run: tuple[int, int, int]
) -> None:
    facets.put_checks(conn, entries)
    runs.count(conn, *run)


def _language(texts: list[str]) -> str | None:
    joined, at = "", 0
    while len(joined) < LANGUAGE_SAMPLE_CHARACTERS and at < len(texts):
        joined += texts[at][:LANGUAGE_SAMPLE_CHARACTERS] + "\n"
        at += 1
    return language(joined)
