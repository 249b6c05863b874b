"""What is looked for after an import: languages and personal data, on small projects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base.errors import Cancelled
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.language import detect_language
from engine.conversations.records import ImportRequest
from engine.conversations.service import stored_accounts
from engine.conversations.stages import CheckStage, ImportStage
from engine.conversations.tables import facets
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from tests.engine.goals.service.goal_project import run
from tests.engine.project.support import fill, talk

LONG = (
    "The blue parcel that I ordered on Monday has not come, and the shop says that it was handed to a neighbour"
    " whom I do not know; please find out who signed for it and tell me when I can have it, or send another."
)
GERMAN = "Wo bleibt mein Paket? Ich habe es am Montag bestellt und warte immer noch darauf."


@pytest.fixture
def project(project: Project) -> Project:
    """Four conversations: two in English, one in German with an address, one of a word."""
    fill(
        project,
        [
            talk("one", LONG, "I am sorry to hear that."),
            talk("two", LONG.replace("Monday", "Tuesday"), "I am sorry to hear that."),
            talk("three", GERMAN, "Schreiben Sie an hilfe@example.org."),
            talk("four", "ok"),
        ],
    )
    run(project, [CheckStage(project)])
    return project


def found(project: Project, text: str) -> list[int]:
    """Ids of the conversations that a filter selects."""
    return list(ConversationService(project).ids(ListQuery(parse_filter(text))))


def test_filters(project: Project) -> None:
    """What was found can be filtered by, also for what has none of it."""
    for text, ids in (
        ("language:en", [1, 2]),
        ("language:none", [4]),
        ("personal:email", [3]),
        ("personal:phone", []),
        ("-personal:any", [1, 2, 4]),
    ):
        assert found(project, text) == ids, text


def test_only_what_is_new_is_looked_at(project: Project) -> None:
    """A second run looks at what came since."""
    fill(project, [talk("five", LONG.replace("blue", "red"), "Sorry.")], "later.jsonl")
    stage = CheckStage(project)
    run(project, [stage])
    assert stage.languages.total() == 1


def test_text_that_is_replaced_is_looked_at_anew(project: Project, tmp_path: Path) -> None:
    """What was found in a text goes with it."""
    source = tmp_path / "grown.jsonl"
    for text, code in ((f"{GERMAN} a@example.org", "de"), ("Where is my parcel, please?", "en")):
        message = {"role": "user", "content": text}
        source.write_text(json.dumps({"id": "five", "messages": [message]}) + "\n")
        run(
            project,
            [ImportStage(project, [str(source)], ImportRequest(replace=True)), CheckStage(project)],
        )
        assert found(project, f"name:five language:{code}") == [5]
    assert found(project, "personal:any") == [3]


def test_a_cancel_keeps_what_was_committed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a cancel the rest is looked at by the next run, nothing twice."""
    monkeypatch.setattr("engine.conversations.stages.CHECK_BATCH_CONVERSATIONS", 2)
    fill(project, [talk(f"n{n}", f"word {n} " * 30) for n in range(5)], "more.jsonl")
    stage = CheckStage(project)
    steps = stage.run(1)
    next(steps)
    stage.interrupt()
    with pytest.raises(Cancelled):
        list(steps)
    assert len(project.read(facets.unchecked_ids)) == 3
    run(project, [CheckStage(project)])
    counts = project.read(facets.check_counts)
    assert counts is not None
    assert sum(counts.languages.values()) == 9


class TestLanguage:
    @pytest.mark.parametrize(
        ("code", "text"),
        [
            ("en", "where is my order?"),
            ("de", "Ich möchte meinen Flug umbuchen"),
            ("fr", "Je voudrais réserver une table pour deux"),
            ("zh", "你好,请问我的订单在哪里"),
            ("ja", "明日の予約をキャンセルしたい"),
            ("pl", "Chcę anulować zamówienie"),
            ("en", "Explain this: ```\nfür = datei.öffne('straße')\n``` and tell me what it does."),
            (None, "ok"),
            (None, "123"),
            (None, "ls -la"),
            (None, ""),
        ],
    )
    def test_sentences(self, code: str | None, text: str) -> None:
        """A sentence is enough; what could be any language has none."""
        assert detect_language(text) == code


def test_stored_counts_are_those_of_the_run(project: Project) -> None:
    """The account of the sources begins with what the checks found, in the words of the run."""
    stage = CheckStage(project)
    stored = ConversationService(project).checks()
    assert stored is not None
    assert stored_accounts([], stored).splitlines()[0] == stored.in_words()
    assert stored.in_words() == (
        "Looked at 4 conversations: en 2, de 1, language not clear 1, e-mail address in 1."
    )
    run(project, [stage])
    assert ConversationService(project).checks() == stored
