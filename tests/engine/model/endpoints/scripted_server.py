"""A server with a capable model, scripted: it answers the prompts with fields plausibly by rules. The kinds of servers
are data: what each follows, lists, refuses, and how it dresses a reply.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from typing import Any, Literal

from tests.engine.model.endpoints.toy_peer import JsonHandler, QuietServer, on_thread

MODEL = "scripted"

THOUGHTS = "Okay, let me look at this. " * 20


@dataclass(frozen=True, slots=True)
class ServerKind:
    """What tells one kind of server from another.

    Attributes:
        follows: What makes it reply with JSON alone: a type of `response_format`, or a tool; else it is asked in words.
        top: Number of tokens that it lists of a reply.
        refused: Fields of a request that it answers with 400.
        thoughts: Where it puts what it thinks, which takes 120 tokens; "" if it does not.
        dress: How a reply in words looks, `{}` standing for its JSON.
        in_words: Whether it writes the fields as lines in bold print, not as JSON.
    """

    follows: Literal["", "json_schema", "json_object", "tool"] = "json_schema"
    top: int = 0
    refused: frozenset[str] = frozenset()
    thoughts: Literal["", "apart", "inline"] = ""
    dress: str = "{}"
    in_words: bool = False


KINDS = {
    "vllm": ServerKind(top=20),
    "llama-server": ServerKind(top=20),
    "llama-cpp-python": ServerKind(follows="json_object"),
    "ollama": ServerKind(top=20),
    "lmstudio": ServerKind(refused=frozenset({"logprobs"})),
    "openrouter": ServerKind(follows="tool", refused=frozenset({"response_format"})),
    "fenced": ServerKind(follows="", dress="Sure! Here it is:\n```json\n{}\n```\nAnything else?"),
    "bold": ServerKind(follows="", in_words=True),
    "reasoning": ServerKind(follows="", thoughts="apart", refused=frozenset({"tools"})),
    "think": ServerKind(follows="", thoughts="inline", dress="```\n{}\n```"),
    "oseries": ServerKind(thoughts="apart", refused=frozenset({"max_tokens", "temperature"})),
}

GOALS = ("taxi", "hotel", "concert")
"""The words by which the scripted model tells goals apart."""


def goal_in(text: str) -> str:
    """The goal that is named most in a text."""
    counts = Counter(goal for goal in GOALS for _ in re.finditer(goal, text.casefold()))
    return counts.most_common(1)[0][0] if counts else "something"


def fields_for(content: str) -> dict[str, Any]:
    """The fields of a plausible reply to a prompt."""

    def marked(name: str) -> str:
        found = re.search(f"\n<{name}>\n(.*?)\n</{name}>", content, re.S)
        return found[1] if found else ""

    asked = content.rpartition("Reply with one JSON object")[2]
    goal = goal_in(content.partition("<log>\n")[2] if "<log>\n" in content else marked("group"))
    if '"same_goal"' in asked:
        first, second = goal_in(marked("group-1")), goal_in(marked("group-2"))
        return {
            "same_goal": first == second,
            "reason_for": "Both ask for a service.",
            "reason_against": f"One is about a {first}, the other about a {second}.",
            "label": f"Book a {first}",
        }
    if '"label"' in asked:
        return {"label": f"Book a {goal}", "description": f"The user wants to book a {goal}."}
    if '"goal"' in asked:
        return {"goal": f"The user wants to book a {goal}."}
    done = "thank you" in content.casefold()
    if '"cites"' in asked:
        said = "It is said." if done else "It is not said."
        values = ("done", "open") if "reach its end" in content else ("yes", "no")
        return {"explanation": said, "cites": [3] * done, "value": values[not done]}
    if '"open"' in asked:
        return {"open": [] if done else [{"request": f"Book the {goal}", "step": 1}]}
    return {}


def free_reply(content: str) -> str:
    """A reply to a question of the paper: it names the goal that most of a list ask for, takes taxis and hotels for one
    goal, and says neither yes nor no of anything else."""
    lists = {name: text for name, _, text in (p.partition("]") for p in content.split("["))}
    if "GROUP 1" in lists:
        first, second = (goal_in(lists[name]) for name in ("GROUP 1", "GROUP 2"))
        if first == second or {first, second} == {"taxi", "hotel"}:
            goals = " or a ".join(sorted({first, second}))
            return f"Yes. Both ask for a service.\n\nDescription: The user books a {goals}."
        if "something" in (first, second):
            return "Both are about an evening out."
        return f"No, one is about a {first}, the other about a {second}."
    if "GROUP" in lists:
        return f"The user books a {goal_in(lists['GROUP'])}."
    if "three to five words" in content:
        return goal_in(lists["USER INPUT LOG"])
    wish = re.search(r"I need (.+?), please", content)
    return f"The user wants {wish[1] if wish else 'something'}."


class ScriptedServer:
    """One server of a kind.

    Attributes:
        bodies: The requests for replies.
        script: Returns the text of the reply to a question, in place of the rules; None takes them.
    """

    def __init__(
        self, kind: ServerKind, script: Callable[[dict[str, Any]], str | None] = lambda body: None
    ) -> None:
        self.kind, self.script = kind, script
        self.bodies: list[dict[str, Any]] = []
        scripted = self

        class BoundHandler(_Handler):
            server_of = scripted

        self.http = QuietServer(("127.0.0.1", 0), BoundHandler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1#{MODEL}"

    def answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        """The answer to a request for a reply."""
        kind = self.kind
        if refused := sorted(kind.refused & {name for name in body if body[name] is not None}):
            used = "max_completion_tokens" if refused == ["max_tokens"] else "something else"
            return 400, {
                "error": {"message": f"Unsupported parameter: '{refused[0]}'. Use {used}."}
            }
        self.bodies.append(body)
        content = next(m["content"] for m in body["messages"] if m["role"] == "user")
        form = body.get("response_format") or {}
        schema = (form.get("json_schema") or form).get("schema")
        if kind.follows == "tool" and "tools" in body:
            schema = body["tools"][0]["function"]["parameters"]
        elif form.get("type") != kind.follows:
            schema = None
        fields = fields_for(content)
        if not fields and schema:
            fields = {name: value["enum"][0] for name, value in schema["properties"].items()}
        elif not fields and "JSON object {" in content and not kind.follows:
            fields = json.loads(content[content.index("{") : content.rindex("}") + 1])
        text = json.dumps(fields) if fields else "Hello! How can I help you today?"
        if not fields and ("[GROUP" in content or "[USER INPUT LOG]" in content):
            text = free_reply(content)
        if fields and not schema and kind.in_words:
            text = "\n\n".join(
                f"**{name.replace('_', ' ').capitalize()}:** {_in_words(value)}"
                for name, value in fields.items()
            )
        elif fields and not schema:
            text = kind.dress.replace("{}", text)
        if '"cites"' in content:
            text = self.script(body) or text
        return 200, self._completion(body, text, called=kind.follows == "tool" and bool(schema))

    def _completion(self, body: dict[str, Any], text: str, *, called: bool) -> dict[str, Any]:
        kind = self.kind
        room = body.get("max_completion_tokens") or body["max_tokens"]
        message: dict[str, Any] = {"role": "assistant", "content": text}
        ended = "stop"
        if kind.thoughts and room <= 120:
            message, ended = {"role": "assistant", "content": ""}, "length"
        elif kind.thoughts == "apart":
            message["reasoning_content"] = THOUGHTS
        elif kind.thoughts == "inline":
            message["content"] = f"<think>\n{THOUGHTS}</think>\n\n{text}"
        if called:
            call = {"function": {"name": "reply", "arguments": text}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice: dict[str, Any] = {"finish_reason": ended, "message": message}
        if body.get("logprobs") and kind.top:
            choice["logprobs"] = {
                "content": [_listed(word) for word in re.split(r"(?= )|(?=,)", text)]
            }
        usage = {"prompt_tokens": 9, "completion_tokens": len(text) // 4}
        return {"choices": [choice], "usage": usage}


def _in_words(value: Any) -> str:
    return {True: "Yes", False: "No"}[value] if isinstance(value, bool) else json.dumps(value)


def _listed(token: str) -> dict[str, Any]:
    """A token with its probability, .8, and the other verdict with .2 where it is one."""
    entry = {"token": token, "logprob": log(0.8)}
    turned = {" true": " false", " false": " true", ' "yes"': ' "no"', ' "no"': ' "yes"'}.get(
        token.removesuffix("}"), " other"
    )
    return {**entry, "top_logprobs": [entry, {"token": turned, "logprob": log(0.2)}]}


class _Handler(JsonHandler):
    """Answers HTTP requests."""

    server_of: ScriptedServer

    def do_GET(self) -> None:
        """Lists the model."""
        known = self.path == "/v1/models"
        self.say(200 if known else 404, {"data": [{"id": MODEL}]} if known else {})

    def do_POST(self) -> None:
        """Answers messages; knows no other path."""
        if self.path == "/v1/chat/completions":
            self.say(*self.server_of.answer(self.body()))
        else:
            self.say(404, {"error": "no such path"})


@contextmanager
def scripted(
    kind: ServerKind, script: Callable[[dict[str, Any]], str | None] = lambda body: None
) -> Iterator[ScriptedServer]:
    """A server that runs until the block ends."""
    server = ScriptedServer(kind, script)
    with on_thread(server.http):
        yield server
