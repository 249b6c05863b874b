"""The calls of models in traces become the turns of a conversation."""

from __future__ import annotations

import json
from typing import Any

from tests.engine.formats.reading import parsed

Said = tuple[str, str]


def run(trace: str, second: int, given: list[Said], answer: str, parent: str = "") -> bytes:
    """A run of LangSmith in the session `s`."""
    messages = [{"role": role, "content": content} for role, content in given]
    value: dict[str, Any] = {
        "id": f"{trace}-{second}",
        "trace_id": trace,
        "parent_run_id": parent,
        "run_type": "llm",
        "start_time": f"2026-01-01T00:00:{second:02d}Z",
        "inputs": {"messages": messages},
        "outputs": {"choices": [{"message": {"role": "assistant", "content": answer}}]},
        "extra": {"metadata": {"session_id": "s"}},
    }
    return json.dumps(value).encode()


def conversations(*runs: bytes) -> dict[str, list[Said]]:
    """The conversations of runs, by their ids."""
    found = [record.conversation for record in parsed(b"\n".join(runs), "langsmith")]
    return {one.external_id: [(m.role, m.content) for m in one.messages] for one in found}


def test_a_call_that_has_the_history_continues_it() -> None:
    """Calls of several traces that repeat what was said become one conversation, in the order of their times."""
    first = run("t1", 1, [("user", "a")], "b")
    second = run("t2", 2, [("user", "a"), ("assistant", "b"), ("user", "c")], "d")
    said = [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]
    assert conversations(second, first) == {"s": said}


def test_a_history_that_was_cut_at_its_beginning_is_still_continued() -> None:
    """An application that sends the last messages only loses none of the earlier ones."""
    calls = (
        run("t1", 1, [("system", "x"), ("user", "a")], "b"),
        run("t2", 2, [("system", "x"), ("user", "a"), ("assistant", "b"), ("user", "c")], "d"),
        run("t3", 3, [("system", "x"), ("user", "c"), ("assistant", "d"), ("user", "e")], "f"),
    )
    texts = [content for _, content in conversations(*calls)["s"]]
    assert texts == ["x", "a", "b", "c", "d", "e", "f"]


def test_the_same_question_in_the_same_trace_is_a_second_try_and_in_another_a_turn() -> None:
    """Of two tries the later answer is read; a question that is asked again later is a turn of its own."""
    calls = (
        run("t1", 1, [("user", "a")], "wrong"),
        run("t1", 2, [("user", "a")], "right"),
        run("t2", 3, [("user", "a")], "again"),
    )
    texts = [content for _, content in conversations(*calls)["s"]]
    assert texts == ["a", "right", "a", "again"]


def test_updates_that_are_none() -> None:
    """Runs whose updates are no list are read without them."""
    value = json.loads(run("t1", 1, [("user", "a")], "b"))
    (record,) = parsed(json.dumps({"post": [value], "patch": 7}).encode(), "langsmith")
    assert [m.content for m in record.conversation.messages] == ["a", "b"]


def test_other_instructions_do_not_begin_another_history() -> None:
    """A call with a new system message and the old messages continues the history."""
    calls = (
        run("t1", 1, [("system", "x"), ("user", "a")], "b"),
        run("t2", 2, [("system", "y"), ("user", "a"), ("assistant", "b"), ("user", "c")], "d"),
    )
    texts = [content for _, content in conversations(*calls)["s"]]
    assert texts == ["y", "a", "b", "c", "d"]


def test_sub_agents_are_conversations_and_single_calls_metadata() -> None:
    """In one trace, another history of two calls is a conversation, and one of a single call stays as metadata."""
    main = [("user", "a"), ("assistant", "b"), ("user", "c")]
    calls = (
        run("t1", 1, main[:1], "b"),
        run("t1", 2, [("user", "sub")], "one", "t1-1"),
        run("t1", 3, [("user", "sub"), ("assistant", "one"), ("user", "more")], "two", "t1-1"),
        run("t1", 4, [("user", "a title of the whole")], "the title of it", "t1-1"),
        run("t1", 5, main, "d"),
    )
    found = conversations(*calls)
    assert [content for _, content in found["s"]] == ["a", "b", "c", "d"]
    assert [content for _, content in found["s/1"]] == ["sub", "one", "more", "two"]
    (record, *_) = parsed(b"\n".join(calls), "langsmith")
    assert "a title of the whole" in json.dumps(record.conversation.meta)
    assert "the title of it" in json.dumps(record.conversation.meta)


def test_a_sign_that_is_no_number_is_a_key() -> None:
    """Attributes of OpenTelemetry whose keys end in `²` or in thousands of digits are no list, and are read."""
    for key in ("²", "9" * 5_000):
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "hello",
            f"gen_ai.other.{key}": "x",
        }
        line = json.dumps({"traceId": "t", "spanId": "s", "attributes": attributes}).encode()
        (record,) = parsed(line, "opentelemetry")
        assert [message.content for message in record.conversation.messages] == ["hello"]
