"""Properties of the sample conversations."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message, render_log
from engine.simulate.demo.samples import sample_conversations, write_jsonl
from tests.engine.simulate.demo.corpus import corpus, in_domain, truth

DOMAINS = ("shopping", "underwriting", "terminal", "sql", "forms", "travel")


def length(conversation: Conversation) -> int:
    return sum(len(message.content) for message in conversation.messages)


def users(conversation: Conversation) -> int:
    return sum(message.role == "user" for message in conversation.messages)


def contents() -> str:
    return "\n".join(message.content for c in corpus() for message in c.messages)


class TestTheSet:
    def test_the_same_seed_gives_the_same_conversations(self) -> None:
        """The same count and seed give the same conversations."""
        assert sample_conversations(40, 3) == sample_conversations(40, 3)

    def test_another_seed_gives_other_conversations(self) -> None:
        """Another seed gives other conversations."""
        ours = {c.messages for c in sample_conversations(40, 3)}
        assert not ours & {c.messages for c in sample_conversations(40, 4)}

    @pytest.mark.parametrize("count", [0, 1, 7, 60])
    def test_any_count_is_met(self, count: int) -> None:
        """As many conversations as asked for, each with an id of its own."""
        made = sample_conversations(count)
        assert len({c.external_id for c in made}) == count

    def test_all_domains_and_outcomes_occur_in_their_shares(self) -> None:
        """The six domains are equally frequent; 60% are complete, 25% interrupted, 15% failed, and the truth
        says which.
        """
        assert Counter(truth(c, "domain") for c in corpus()) == dict.fromkeys(DOMAINS, 20)
        outcomes = Counter(truth(c, "outcome") for c in corpus())
        assert outcomes == {"complete": 72, "broken_off": 30, "failed": 18}
        for c in corpus():
            assert truth(c, "complete") == (truth(c, "outcome") == "complete")
            assert str(truth(c, "goal")).startswith(f"{truth(c, 'domain')}/")

    def test_every_domain_has_every_outcome(self) -> None:
        """No domain gives its outcome away by its name."""
        for domain in DOMAINS:
            assert len({truth(c, "outcome") for c in in_domain(domain)}) == 3

    def test_lengths_are_those_of_a_real_set(self) -> None:
        """The mean length is 500 to 700 characters; some are much longer, one or two very long."""
        lengths = [length(c) for c in corpus()]
        assert 500 < sum(lengths) / len(lengths) < 700
        assert sum(value > 900 for value in lengths) >= 5
        assert 1 <= sum(value > 2_000 for value in lengths) <= 2
        assert max(lengths) < 6_000
        assert {users(c) for c in corpus()} <= set(range(2, 10))

    def test_the_logs_are_short_enough_for_a_demo(self) -> None:
        """As a model reads them, headers included, a mean of at most 1,100 characters and 11 steps."""
        logs = [render_log(c.messages) for c in corpus()]
        assert sum(len(piece.text) for log in logs for piece in log) <= 1_100 * len(logs)
        assert sum(len(log) for log in logs) <= 11 * len(logs)

    def test_dates_spread_over_one_month(self) -> None:
        """Every conversation has a time of March 2026, in order, in UTC."""
        stamps = [c.created_at or "" for c in corpus()]
        assert stamps == sorted(stamps)
        days = {datetime.fromisoformat(stamp).strftime("%Y-%m-%d") for stamp in stamps}
        assert len(days) > 20
        assert all(stamp.startswith("2026-03-") and stamp.endswith("Z") for stamp in stamps)

    def test_two_domains_share_a_system_prompt(self) -> None:
        """The same text opens all conversations of a domain, so that its cache can be shared."""
        for domain in ("underwriting", "travel"):
            prompts = {c.messages[0] for c in in_domain(domain)}
            (prompt,) = prompts
            assert prompt.role == "system"
            assert 250 <= len(prompt.content) <= 450

    def test_text_that_is_hard_to_display_occurs(self) -> None:
        """There are emoji, other scripts, accents, bracketed text, tables, code, JSON and a very long line."""
        text = contents()
        for piece in ("🙂", "🎁", "返品", "ø", "[/b]", "|---|", "```sql", '{"', "###STOP###"):
            assert piece in text
        assert any(len(line) > 400 and " " not in line for line in text.splitlines())

    def test_stop_tokens_close_user_messages_of_one_domain(self) -> None:
        """The leak guard finds stop tokens, at the end of user messages of one domain only."""
        found = [(c, m) for c in corpus() for m in c.messages if "###STOP###" in m.content]
        assert found
        for conversation, message in found:
            assert truth(conversation, "domain") == "travel"
            assert message.role == "user"
            assert message.content.endswith("###STOP###")


class TestToolCalls:
    def test_arguments_are_json_and_every_call_is_answered(self) -> None:
        """The message after a call is its answer, by id and name."""
        calls = 0
        for c in corpus():
            for message, after in zip(c.messages, [*c.messages[1:], None], strict=True):
                for call in message.tool_calls:
                    calls += 1
                    assert isinstance(json.loads(call.arguments), dict)
                    assert after is not None
                    assert (after.role, after.name) == ("tool", call.name)
                    assert after.tool_call_id == call.call_id
        assert calls > 100

    def test_ids_of_calls_are_unique_in_a_conversation(self) -> None:
        """An answer belongs to one call only."""
        for c in corpus():
            ids = [call.call_id for m in c.messages for call in m.tool_calls]
            assert len(ids) == len(set(ids))


class TestWording:
    def test_no_two_openings_are_alike(self) -> None:
        """The first user messages are all different."""
        first = [next(m.content for m in c.messages if m.role == "user") for c in corpus()]
        assert len(set(first)) == len(first)

    def test_few_user_sentences_occur_twice(self) -> None:
        """Of user sentences of four words or more under a fifth occur twice, none in more than 1%."""
        sentences = [
            sentence.lower()
            for c in corpus()
            for m in c.messages
            if m.role == "user"
            for sentence in re.split(r"(?<=[.?!])\s+|\n", m.content)
            if len(sentence.split()) >= 4
        ]
        counts = Counter(sentences)
        assert len(sentences) > 300
        assert sum(n for n in counts.values() if n > 1) < 0.2 * len(sentences)
        assert max(counts.values()) < 0.01 * len(sentences)

    def test_no_template_is_left_unfilled(self) -> None:
        """No `$name` and no `{a|b}` reaches the text of a user or an assistant."""
        for c in corpus():
            for message in c.messages:
                if message.role in ("user", "assistant"):
                    assert not re.search(r"\$[a-z]|\{[^{}\n]*\|", message.content), message.content
                    assert message.content or message.tool_calls


class TestWriting:
    def test_the_uniform_form_keeps_everything(self, tmp_path: Path) -> None:
        """Export to the uniform format and import keep messages, calls, ids and truth."""
        path = tmp_path / "demo.jsonl"
        write_jsonl(corpus(), path)
        lines = path.read_bytes().decode("utf-8").splitlines()
        assert len(lines) == len(corpus())
        for line, c in zip(lines, corpus(), strict=True):
            record = json.loads(line)
            assert (record["id"], record["dataset"]) == (c.external_id, "demo")
            assert (record["truth"], record["created_at"]) == (c.truth, c.created_at)
            assert [shape(m) for m in c.messages] == [
                (
                    m["role"],
                    m["content"],
                    m.get("name"),
                    m.get("tool_call_id"),
                    [(x["id"], x["name"], x["arguments"]) for x in m.get("tool_calls", [])],
                )
                for m in record["messages"]
            ]


def shape(message: Message) -> tuple[object, ...]:
    calls = [(call.call_id, call.name, call.arguments) for call in message.tool_calls]
    return (message.role, message.content, message.name, message.tool_call_id, calls)
