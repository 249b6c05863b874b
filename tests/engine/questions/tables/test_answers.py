"""Verdicts, notes, undo, redo and the triage queue."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.conversation import SUCCEEDED, Verdict
from engine.completeness.tables import score_sets
from engine.conversations.filters import ListQuery, parse_filter
from engine.conversations.tables import selecting
from engine.opener.conversations import ConversationRow, ConversationService
from engine.project import settings as project_settings
from engine.project.project import Project
from engine.project.schema import migrate
from engine.questions import records
from engine.questions.question import NOTE, YES, make_slug
from engine.questions.records import AnswerRow
from engine.questions.service.triage import TriageService
from engine.questions.tables import answers, opinions, triage_queue
from tests.engine.project.support import fill, give_scores, talk

CONVERSATIONS = 3
Act = tuple[str, tuple[int, ...], Verdict | None, str]
"""Kind, conversations, verdict, and the note or the tag."""


@dataclass
class Model:
    """A model of verdicts without a database: a stack of active acts and a stack of undone acts."""

    active: list[Act] = field(default_factory=list)
    undone: list[Act] = field(default_factory=list)

    def append(self, act: Act) -> None:
        self.active.append(act)
        self.undone.clear()

    def undo(self) -> Act | None:
        if not self.active:
            return None
        self.undone.append(self.active.pop())
        return self.undone[-1]

    def redo(self) -> Act | None:
        if not self.undone:
            return None
        self.active.append(self.undone.pop())
        return self.active[-1]

    def tags(self, conversation: int) -> tuple[str, ...]:
        held: set[str] = set()
        for kind, keys, _, name in self.active:
            if conversation in keys and kind in ("tag", "untag"):
                held = held | {name} if kind == "tag" else held - {name}
        return tuple(sorted(held))

    def current(self, conversation: int) -> tuple[Verdict | None, str, tuple[str, ...]] | None:
        mine = [act for act in self.active if conversation in act[1] and act[0] != "repeat"]
        if not mine:
            return None
        given = [verdict for _, _, verdict, _ in mine if verdict is not None]
        notes = [note for kind, _, _, note in mine if kind == "note" or (kind == "give" and note)]
        return (
            given[-1] if given else None,
            notes[-1] if notes else "",
            self.tags(conversation),
        )


_conversation = st.integers(1, CONVERSATIONS)
_several = st.lists(_conversation, min_size=1, max_size=CONVERSATIONS)
_note = st.sampled_from(["", "n1", "n2"])
_tag = st.sampled_from(["t1", "t2"])
_action = st.one_of(
    st.tuples(st.just("give"), _conversation, st.sampled_from(Verdict), _note),
    st.tuples(st.just("repeat"), _conversation, st.sampled_from(Verdict)),
    st.tuples(st.just("note"), _conversation, _note),
    st.tuples(st.sampled_from(["tag", "untag"]), _several, _tag),
    st.tuples(st.just("undo")),
    st.tuples(st.just("redo")),
)


def yes_of(row: AnswerRow) -> tuple[str, ...]:
    """Returns the questions that are answered with yes."""
    return tuple(name for name, value in row.answers if value == YES)


def plain(row: AnswerRow | None) -> tuple[str, int, int, Verdict | None, str] | None:
    """An act as a tuple: kind, first conversation, count, verdict, note or tag."""
    if row is None:
        return None
    kind = {"succeeded": "repeat" if row.blind else "give", "note": "note"}.get(row.question)
    if kind is None:
        ((name, value),) = row.answers
        return ("tag" if value == "yes" else "untag", row.conversation_id, row.count, None, name)
    return (kind, row.conversation_id, row.count, row.verdict, row.note)


def plain_act(act: Act | None) -> tuple[str, int, int, Verdict | None, str] | None:
    """The same tuple of the model; a bulk act is described by its newest row."""
    if act is None:
        return None
    kind, keys, verdict, said = act
    return (kind, keys[-1], len(keys), verdict, "" if kind == "give" else said)


@cache
def unanswered() -> bytes:
    """A database of conversations without an answer."""
    conn = sqlite3.connect(":memory:", isolation_level=None)
    migrate(conn, 0)
    conn.execute("INSERT INTO source VALUES (1, 'p', 'l', 'f', 'w')")
    conn.executemany(
        "INSERT INTO conversation VALUES (?, 1, ?, ?, '', 1, 1, 1, NULL, '{}', NULL)",
        [(n, str(n), bytes([n])) for n in range(1, CONVERSATIONS + 1)],
    )
    return conn.serialize()


@settings(max_examples=150, deadline=None)
@given(st.lists(_action, max_size=25))
def test_any_sequence_behaves_like_two_stacks(actions: list[tuple[object, ...]]) -> None:
    """After any sequence of acts the current verdicts are those of an undo stack and a redo stack."""
    conn = sqlite3.connect(":memory:", isolation_level=None)
    conn.deserialize(unanswered())
    model = Model()
    rows_before: list[tuple[object, ...]] = []
    for action in actions:
        match action:
            case ("give", int(key), Verdict() as verdict, str(note)):
                acts = [records.NewAnswer(key, NOTE, note)] if note else []
                answers.append(conn, [*acts, records.NewAnswer(key, SUCCEEDED, verdict)])
                model.append(("give", (key,), verdict, note))
            case ("repeat", int(key), Verdict() as verdict):
                answers.append(conn, [records.NewAnswer(key, SUCCEEDED, verdict, blind=True)])
                model.append(("repeat", (key,), verdict, ""))
            case ("note", int(key), str(note)):
                answers.append(conn, [records.NewAnswer(key, NOTE, note or None)])
                model.append(("note", (key,), None, note))
            case ("tag" | "untag" as kind, list(keys), str(name)):
                # what has the tag already, or lacks it, is no part of the act
                wanted = [
                    k for k in dict.fromkeys(keys) if (name in model.tags(k)) == (kind == "untag")
                ]
                value = YES if kind == "tag" else None
                acts = [records.NewAnswer(key, make_slug(name), value) for key in keys]
                assert answers.change(conn, acts) == len(wanted)
                if wanted:
                    model.append((kind, tuple(wanted), None, name))
            case ("undo",):
                assert plain(answers.undo(conn)) == plain_act(model.undo())
            case ("redo",):
                assert plain(answers.redo(conn)) == plain_act(model.redo())
        rows = conn.execute("SELECT * FROM answer ORDER BY id").fetchall()
        assert rows[: len(rows_before)] == rows_before  # appended, never changed
        rows_before = rows
        for key in range(1, CONVERSATIONS + 1):
            row = answers.current(conn, key)
            assert (row and (row.verdict, row.note, yes_of(row))) == model.current(key)
    expected = dict.fromkeys(Verdict, 0)
    for key in range(1, CONVERSATIONS + 1):
        stands = model.current(key)
        if stands and stands[0]:
            expected[stands[0]] += 1
        repeated = tuple(v for k, keys, v, _ in model.active if k == "repeat" and key in keys)
        assert opinions.repeats(conn, key) == repeated
    assert answers.counts(conn, SUCCEEDED) == {each: n for each, n in expected.items() if n}
    conn.close()


class TestStore:
    def test_the_list_shows_the_verdict_that_stands(self, project: Project) -> None:
        """Rows have the newest verdict; a note does not change it, and undo restores the one before."""
        fill(project, [talk("a", "hi")])
        triage = TriageService(project)

        def shown() -> Verdict | None:
            row: ConversationRow = ConversationService(project).rows([1])[0]
            return row.verdict

        triage.note(1, "hm")
        assert shown() is None
        triage.give(1, Verdict.YES)
        triage.give(1, Verdict.NO)
        triage.note(1, "but")
        assert shown() is Verdict.NO
        triage.undo()
        triage.undo()
        assert shown() is Verdict.YES

    def test_export_gives_each_conversation_once(self, project: Project) -> None:
        """A verdict is exported once, whatever duplicates its conversation has; they are named beside it."""
        fill(project, [talk("a", "hi"), talk("b", "other"), talk("c", "hi")])
        TriageService(project).give(1, Verdict.YES, "ok")
        (judged,) = project.read(opinions.answered_conversations)
        assert judged.in_force.verdict == Verdict.YES
        assert judged.conversation.names() == {
            "id": "a",
            "duplicates": [{"id": "c", "source": "a.jsonl"}],
        }


class TestQueue:
    def test_order(self, project: Project) -> None:
        """Open ones come by nearness to the threshold, then broken off ones by falling score, then those not scored."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(1, 10)])
        give_scores(project, {1: 0.1, 2: 0.9, 3: 0.45, 4: 0.52, 5: None, 6: 0.3, 7: 0.58, 8: 0.2})
        triage = TriageService(project)
        assert [(item.conversation_id, item.why) for item in triage.queue().items] == [
            (4, "open: the score is too near the threshold to say"),
            (3, "open: the score is too near the threshold to say"),
            (7, "open: the score is too near the threshold to say"),
            (6, "broken off: the score is below the threshold"),
            (8, "broken off: the score is below the threshold"),
            (1, "broken off: the score is below the threshold"),
            (5, "not scored: too long"),
            (9, "not scored yet"),
        ]
        triage.give(4, Verdict.YES)
        triage.note(3, "only a note")
        assert [item.conversation_id for item in triage.queue().items][:2] == [3, 7]
        triage.undo()
        triage.undo()
        assert triage.queue().items[0].conversation_id == 4

    def test_disagreement(self, project: Project) -> None:
        """Conversations that two runs put into different states, the largest difference first, with both states as the
        reason.
        """
        fill(project, [talk(str(n), f"hi {n}") for n in range(1, 6)])
        give_scores(project, {1: 0.9, 2: 0.1, 3: 0.8, 4: 0.7, 5: 0.9})
        give_scores(
            project, {1: 0.8, 2: 0.95, 3: 0.3, 4: 0.2, 5: None}, "config-b", make_current=False
        )
        page = TriageService(project).queue("disagreement")
        assert [item.conversation_id for item in page.items] == [2, 3, 4]
        assert page.total == 3
        assert page.items[0].why == (
            "disagreement: set 1 (tiny.gguf) says incomplete, set 2 (tiny.gguf) says complete"
        )
        unfinished = score_sets.UNFINISHED_SETTING
        project.write(lambda conn: project_settings.put(conn, unfinished, "config-b"))
        assert TriageService(project).queue("disagreement").total == 0

    def test_people_who_disagree(self, project: Project) -> None:
        """The order `people` has what people disagree on, with what each says, until somebody decides."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(1, 5)])
        triage = TriageService(project)
        triage.annotator = "ann"
        for n in (1, 2, 3):
            triage.give(n, Verdict.YES)
        triage.annotator = ""
        triage.repeat(1, Verdict.NO)
        triage.repeat(2, Verdict.YES)
        triage.repeat(3, Verdict.UNSURE)
        page = triage.queue("people")
        assert [item.conversation_id for item in page.items] == [1, 3]
        assert page.items[0].why == "people disagree: (no name) says no, ann says yes"
        triage.give(3, Verdict.NO)
        assert [item.conversation_id for item in triage.queue("people").items] == [1]
        triage.undo()
        assert triage.queue("people").total == 2

    def test_a_sample_stands_for_all(self, project: Project) -> None:
        """A sample begins with what `draw` draws, and neither verdicts nor scores change what follows. What was
        answered before the first one without an answer was drawn, whatever else was answered."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(1, 202)])
        triage = TriageService(project)
        order = [item.conversation_id for item in triage.queue("sample").items]
        assert sorted(order) == list(range(1, 202))
        tenth = project.read(selecting.ids, ListQuery(parse_filter("draw<.1")))
        assert {*order[: len(tenth)]} == {*tenth}
        give_scores(project, {n: (n * 37 % 200) / 200 for n in range(1, 201)} | {201: None})
        for key in (*order[:7], *order[8:12]):
            triage.give(key, Verdict.YES)
        assert [item.conversation_id for item in triage.queue("sample").items] == [
            order[7], *order[12:]
        ]  # fmt: skip
        assert project.read(triage_queue.drawn, SUCCEEDED) == sorted(order[:7])


class TestAgain:
    def test_what_is_asked_again(self, project: Project) -> None:
        """Blind repeats are of earlier verdicts, without the newest ten, each once, and change no current verdict."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(1, 26)])
        triage = TriageService(project)
        for n in range(1, 26):
            triage.give(n, Verdict.YES)
        asked = triage.to_repeat(10)
        assert len(set(asked)) == 10
        assert set(asked) <= set(range(1, 16))
        for n in asked:
            triage.repeat(n, Verdict.NO)
        assert triage.tally()[Verdict.YES] == 25
        assert set(triage.to_repeat(10)) == set(range(1, 16)) - set(asked)
        with project.reading() as conn:
            pairs = opinions.repeated_pairs(conn)
            judged = list(opinions.answered_conversations(conn))
        lines = {one.conversation.external_id: one.repeats for one in judged}
        assert pairs == [(n, Verdict.YES, Verdict.NO) for n in sorted(asked)]
        assert lines[str(asked[0])] == (Verdict.NO,)

    def test_what_others_judged(self, project: Project) -> None:
        """A person judges second what others judged and they did not; their own repeats are of their own verdicts."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(1, 31)])
        triage = TriageService(project)
        for name, first in (("ann", 1), ("bob", 16)):
            triage.annotator = name
            for n in range(first, first + 15):
                triage.give(n, Verdict.YES)
        assert set(triage.to_judge_second(50)) == set(range(1, 16))
        triage.repeat(3, Verdict.NO)
        assert set(triage.to_judge_second(50)) == set(range(1, 16)) - {3}
        assert set(triage.to_repeat(50)) == set(range(16, 21))
        triage.annotator = "cy"
        assert len(triage.to_judge_second(50)) == 30
        assert triage.to_repeat(50) == []
        assert project.read(opinions.repeated_pairs) == []

    def test_a_bulk_tag_is_one_step(self, project: Project) -> None:
        """Undo removes a tag from everything that one act gave it to, and from nothing else."""
        fill(project, [talk(str(n), f"hi {n}") for n in range(1, 6)])
        triage = TriageService(project)
        triage.answer([records.NewAnswer(2, "late", YES)])
        triage.answer([records.NewAnswer(key, "late", YES) for key in (1, 2, 3)])
        taken = triage.undo()
        assert taken is not None
        assert (taken.answers, taken.count) == ((("late", "yes"),), 2)
        assert [triage.current(n) is not None for n in (1, 2, 3)] == [False, True, False]
        triage.redo()
        current = triage.current(3)
        assert current is not None
        assert yes_of(current) == ("late",)
