"""Kinds of log: which sources one probe scores together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.base.conversation import LogPiece, Role, step_header
from engine.completeness.kinds import Kinds, Roles, find_kinds
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE as ENOUGH
from engine.completeness.words import DISTANCES, BoundaryWords, MessageWords
from engine.conversations.records import Origin

CHAT = Roles(uses_tools=False, is_one_request=False)
RUN = Roles(uses_tools=True, is_one_request=True)


def found(*parts: tuple[Origin, Roles, str, int], boundaries: int = 2) -> Kinds:
    """The kinds of conversations that come in parts: their origin, their roles, what is said at every boundary of each,
    and how many there are."""
    each = [part[:3] for part in parts for _ in range(part[3])]
    texts = [text for _, _, text in each for _ in range(boundaries)]
    pieces = [
        LogPiece(0, "user", 1, 1, "chat", step_header(1, 1, "user", "chat"), t) for t in texts
    ]
    messages = np.full((len(texts), DISTANCES), -1)
    messages[:, 0] = np.arange(len(texts))
    return find_kinds(
        [origin for origin, _, _ in each],
        [roles for _, roles, _ in each],
        np.full(len(each), boundaries),
        BoundaryWords(MessageWords.from_pieces(pieces), messages),
    )


def source(label: str, format: str = "openai") -> Origin:
    """A source of this name."""
    return Origin(label, format)


def pieces(*steps: tuple[Role, str]) -> Sequence[LogPiece]:
    """A log in which these speak; the second word of a step is its kind."""
    return [
        LogPiece(at, role, at, 1, "action" if kind == "action" else "chat", "", "Hello.")
        for at, (role, kind) in enumerate(steps)
    ]


@pytest.mark.parametrize(
    ("log", "name"),
    [
        (pieces(("user", "chat"), ("assistant", "chat"), ("user", "chat")), "chats"),
        (pieces(("user", "chat"), ("assistant", "action")), "runs of an agent"),
        (pieces(("user", "chat"), ("tool", "chat")), "runs of an agent"),
        (pieces(("user", "chat"), ("tool", "chat"), ("user", "chat")), "chats with tools"),
        (pieces(("system", "chat"), ("user", "chat")), "single requests"),
        (pieces(("assistant", "chat")), "single requests"),
        (pieces(), "single requests"),
    ],
)
def test_who_speaks_gives_the_name(log: Sequence[LogPiece], name: str) -> None:
    """A kind is named by whether a tool is used and whether the user asks once only."""
    assert str(Roles.from_pieces(log)) == name


class TestSources:
    def test_other_roles_are_another_kind(self) -> None:
        """Chats and runs of an agent are two kinds, the larger first, whatever words they share."""
        kinds = found(
            (source("a"), RUN, "the same words", ENOUGH),
            (source("b"), CHAT, "the same words", ENOUGH + 1),
        )
        assert kinds.names == ("chats", "runs of an agent")
        assert [kinds.index_of(source(label)) for label in "ab"] == [1, 0]

    def test_like_words_are_one_kind(self) -> None:
        """Two files of one application are one kind."""
        text = "thanks that is all I need"
        kinds = found((source("a"), CHAT, text, ENOUGH), (source("b"), CHAT, text + " now", ENOUGH))
        assert kinds.names == ("chats",)
        assert kinds.index_of(source("a")) == kinds.index_of(source("b")) == 0

    def test_a_file_for_each_session_is_one_kind(self) -> None:
        """Sources with too few conversations are taken together by their format."""
        files = [(source(f"{number}.json"), CHAT, "good bye", 1) for number in range(ENOUGH)]
        kinds = found(*files, (source("other.json", "other"), RUN, "done", 1))
        assert kinds.names == ("chats",)
        assert kinds.index_of(source("7.json")) == kinds.index_of(source("never seen.json")) == 0
        assert (
            kinds.index_of(source("other.json", "other"))
            == kinds.index_of(source("x", "unknown"))
            == -1
        )

    @pytest.mark.parametrize(("count", "boundaries"), [(ENOUGH - 1, 2), (ENOUGH, 1)])
    def test_too_few_that_can_be_cut_are_no_kind(self, count: int, boundaries: int) -> None:
        """A kind needs as many conversations as a probe does, and only those count that could end in two places."""
        kinds = found((source("a"), CHAT, "good bye", count), boundaries=boundaries)
        assert kinds.names == ()
        assert kinds.index_of(source("a")) == -1
