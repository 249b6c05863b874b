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


def said(*records: Any) -> list[list[Said]]:
    """Returns the conversations of records: the role and the text of each message, of a call its name."""
    records_read = parsed(json.dumps(list(records)).encode())
    return [
        [(m.role, m.content or m.tool_calls[0].name) for m in record.conversation.messages]
        for record in records_read
    ]


def observation(kind: str, given: Any, answered: Any, second: int = 0, **more: Any) -> Any:
    """Returns an observation of Langfuse in the trace `t`."""
    time = f"2026-03-09T10:15:{second:02d}Z"
    fields = {"id": f"{kind}{second}", "traceId": "t", "type": kind, "startTime": time}
    return {**fields, "name": "step", "input": given, "output": answered, **more}


def span(second: int, events: Any = (), **attributes: Any) -> Any:
    """Returns a span of OpenTelemetry in the trace `t`."""
    fields = {"trace_id": "t", "span_id": f"s{second}", "name": "step", "start_time": second}
    attributes = {key.replace("__", "."): value for key, value in attributes.items()}
    return {**fields, "attributes": attributes, "span_events": list(events)}


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASKED = {"role": "user", "content": "Is it wet?"}
LOOKED: list[Said] = [
    ("user", "Is it wet?"),
    ("assistant", "look"),
    ("tool", "rain"),
    ("assistant", "Yes."),
]


def test_what_a_request_says_of_its_tools_is_no_message() -> None:
    """LangChain's requests in Langfuse list the tools among the messages, and keep calls in `additional_kwargs`."""
    tool = {
        "role": "tool",
        "content": {"type": "function", "function": {"name": "look", "parameters": {}}},
    }
    call = {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [CALL]}}
    answer = {"role": "look", "content": "rain"}
    first = observation("GENERATION", [ASKED, tool], call)
    second = observation(
        "GENERATION", [ASKED, call, answer, tool], {"role": "assistant", "content": "Yes."}, 2
    )
    assert said(first, second) == [LOOKED]


def test_calls_in_the_content_are_calls() -> None:
    """Koog writes calls as parts, also under the role of a tool; Microsoft's framework has lists as ids."""
    call = {"role": "tool", "content": [CALL]}
    answer = {"role": "tool", "content": "rain"}
    koog = observation(
        "GENERATION", [ASKED, call, answer], [{"role": "assistant", "content": "Yes."}]
    )
    assert said(koog) == [LOOKED]
    (record,) = parsed(
        json.dumps(
            observation(
                "GENERATION",
                [ASKED],
                {
                    "role": "assistant",
                    "parts": [{"type": "tool_call", "id": ["run", "c1"], "name": "look"}],
                },
            )
        ).encode()
    )
    assert record.conversation.messages[1].tool_calls[0].call_id == '["run", "c1"]'


def test_the_thread_in_the_metadata_is_the_session() -> None:
    """Traces of one thread of LangGraph are one conversation."""
    one_turn = [("user", "Hi"), ("assistant", "Hello")]
    spans = [
        observation(
            "GENERATION",
            [{"role": "user", "content": "Hi"}],
            "Hello",
            number,
            traceId=f"t{number}",
            metadata={"thread_id": "th"},
        )
        for number in (1, 2)
    ]
    assert said(*spans) == [[*one_turn, *one_turn]]


def test_a_call_given_the_same_again_after_a_call_of_tools_is_the_next_step() -> None:
    """Instrumentation of OpenAI's agents leaves the history out of the requests, and shows calls as Python does."""
    shown = (
        "ResponseFunctionToolCall(arguments='{}', call_id='c1', name='look', type='function_call')"
    )
    request = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Is it wet?"}]}])

    def answer(text: str) -> str:
        return json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text}]}])

    request_attributes = {"gen_ai__operation__name": "chat", "gen_ai__input__messages": request}
    tool = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "look"}
    spans = (
        span(1, **request_attributes, gen_ai__output__messages=answer(shown)),
        span(2, **tool, gen_ai__tool__call__result="rain"),
        span(3, **request_attributes, gen_ai__output__messages=answer("Yes.")),
    )
    assert said(*spans) == [LOOKED]


def test_messages_in_events_of_any_convention() -> None:
    """Azure has a message as JSON in `gen_ai.event.content`, AWS what a span was given and answered in the body."""

    def event(name: str, content: Any) -> Any:
        return {"name": name, "attributes": {"gen_ai.event.content": json.dumps(content)}}

    azure = span(
        1,
        [
            event("gen_ai.user.message", ASKED),
            event("gen_ai.assistant.message", {"tool_calls": [CALL]}),
            event("gen_ai.tool.message", {"content": "rain", "id": "c1"}),
            event(
                "gen_ai.choice", {"message": {"role": "assistant", "content": "Yes."}, "index": 0}
            ),
        ],
        gen_ai__operation__name="chat",
    )
    assert said(azure) == [LOOKED]
    used = [{"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}}]
    result = [{"toolResult": {"toolUseId": "c1", "content": [{"text": "rain"}]}}]
    body = {
        "input": {
            "messages": [
                {"role": "user", "content": {"content": json.dumps([{"text": "Is it wet?"}])}},
                {"role": "assistant", "content": {"content": json.dumps(used)}},
                {"role": "tool", "content": {"content": json.dumps(result)}},
            ]
        },
        "output": {
            "messages": [
                {"role": "assistant", "content": {"message": json.dumps([{"text": "Yes."}])}}
            ]
        },
    }
    log = {
        "body": body,
        "attributes": {"event.name": "strands.telemetry.tracer"},
        "traceId": "t",
        "spanId": "s",
    }
    assert said(log) == [LOOKED]


def test_steps_of_decorated_functions_and_components() -> None:
    """OpenLLMetry has what a function was given and returned as an entity, Haystack as a component."""
    workflow = span(
        1,
        traceloop__span__kind="workflow",
        traceloop__entity__input='{"args": ["Is it wet?"]}',
        traceloop__entity__output='"Yes."',
    )
    tool = span(
        2,
        traceloop__span__kind="tool",
        traceloop__entity__name="look",
        traceloop__entity__output='"rain"',
    )
    assert said(workflow, tool) == [LOOKED]
    request = {"messages": [{"role": "user", "content": [{"text": "Is it wet?"}]}]}
    replies = {"replies": [{"role": "assistant", "content": [{"text": "Yes."}]}]}
    component = span(
        1,
        haystack__component__input=json.dumps(request),
        haystack__component__output=json.dumps(replies),
    )
    assert said(component) == [[LOOKED[0], LOOKED[-1]]]


def test_an_answer_that_only_the_agent_has() -> None:
    """Where the last call of a model has no answer, as of a stream, that of the step around it is read."""
    agent = observation("AGENT", "Is it wet?", "Yes.")
    call = observation("GENERATION", [ASKED], None, 1, parentObservationId="AGENT0")
    assert said(agent, call) == [[LOOKED[0], LOOKED[-1]]]


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


def test_all_that_is_said_of_the_calls_of_a_trace_is_truth() -> None:
    """What several runs say under one key is there as a list, be it an object or a list; what repeats is there once."""
    stats: list[Any] = [{"good": 1}, {"good": 1}, {"bad": 2}, {"good": 1}, [{"fine": 3}]]
    runs = [json.loads(run("t", n, [("user", "a")], "b")) for n in range(len(stats))]
    lines = [{**line, "feedback_stats": stat} for line, stat in zip(runs, stats, strict=True)]
    (record,) = parsed(b"\n".join(json.dumps(line).encode() for line in lines), "langsmith")
    assert record.conversation.truth == {"feedback_stats": [{"good": 1}, {"bad": 2}, {"fine": 3}]}
