"""Sample conversations with truth for the demo, tests and benchmarks; determined by a seed.

They are two months of the support desk of a made-up shop, written from the texts and facts of `demo.toml`. A customer
wants one thing, and the agent looks it up and does it with tools. Customers speak in one of four voices. Some forget a
number, want a second thing or ask something on the way. A failure goes wrong as one of `Failure` says. The months
differ in one thing: in the second the system of one carrier times out.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import resources
from os import PathLike
from pathlib import Path
from random import Random
from string import Template
from typing import Any, Literal

import msgspec

from engine.base.conversation import Conversation, Message, ToolCall
from engine.base.line_files import write_beside

Failure = Literal["timeout", "wrong_item", "refused", "loop", "gave_up"]
"""The ways to fail: a tool gives no answer in time; the agent takes another item than was said; the agent
refuses what the policy allows; the agent asks for the same again and again; the customer waits for a person in vain."""

_CHOICE = re.compile(r"\{([^{}]*)\}")
"""Matches an innermost choice `{a|b}`."""

_WITHOUT_ORDER = ("login", "voucher")
"""Goals for which the agent asks for the address of the account."""


class Goal(msgspec.Struct, frozen=True):
    """The goal of a customer, and what is said about it.

    Attributes:
        name: The goal as a person would name it.
        noun: The thing that the goal is about, in a word or two.
        share: Number of conversations of 300 that have the goal.
        openings: First messages of customers.
        working: What the agent says before it acts.
        done: What the agent says after it acted.
        asides: Questions of customers on the way, each with the answer of the agent.
        items: The items that the goal can be about; if empty, all items, or for an exchange those with sizes.
    """

    name: str
    noun: str
    share: int
    openings: tuple[str, ...]
    working: tuple[str, ...]
    done: tuple[str, ...]
    asides: tuple[tuple[str, str], ...]
    items: tuple[str, ...] = ()


class _Shop(msgspec.Struct, frozen=True):
    """The shop: what it tells its agent, and its customers and carriers."""

    system: str
    first: tuple[str, ...]
    last: tuple[str, ...]
    streets: tuple[str, ...]
    towns: tuple[str, ...]
    carriers: tuple[str, ...]


class _Texts(msgspec.Struct, frozen=True):
    """The content of the file `demo.toml`.

    Attributes:
        shop: The shop itself.
        items: Price and sizes of each item by its name; one empty size where there are none.
        goals: The goals of customers, by name of their section.
        agent, voices: What the agent and the customers of each voice say, by occasion.
    """

    shop: _Shop
    items: dict[str, tuple[Any, ...]]
    goals: dict[str, Goal]
    agent: dict[str, tuple[str, ...]]
    voices: dict[str, dict[str, tuple[str, ...]]]


TEXTS = msgspec.convert(
    tomllib.loads((resources.files("engine.simulate") / "demo.toml").read_text("utf-8")),
    _Texts,
)
"""All texts and facts of the samples."""

Outcome = Literal["complete", "broken_off", "failed"]
"""The ways in which a conversation ends: the customer gets it; it stops before; it goes wrong."""

MONTHS = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
"""Beginnings of the two months."""

_DAYS = 28
"""Number of days of each month on which conversations begin."""

_SHARE_BROKEN_OFF = 0.1
"""Share of the conversations that stop before their end."""

_FAILURE_SHARES: dict[Failure, dict[str, float]] = {
    "wrong_item": {"return": 0.16, "exchange": 0.26},
    "refused": {"return": 0.12, "damaged": 0.25},
    "loop": {"cancel": 0.16, "address": 0.14, "invoice": 0.14},
    "gave_up": {"voucher": 0.24, "login": 0.24, "damaged": 0.1},
}
"""Way to fail -> goal -> share of the goal's conversations that fail in this way, in both months."""

CHANGED_GOAL = "Track a parcel"
"""The goal of which more fails in the second month."""

CAUSES = {
    "timeout": frozenset(("timed", "timeout", "error", "errors")),
    "refused": frozenset(("days", "policy", "exception")),
    "loop": frozenset(("repeats", "again", "same")),
}
"""The failures whose cause the report of the demo has to name, each with words that tell of it."""

_SHARE_OF_TIMEOUTS = 0.55
"""Share of the conversations of `CHANGED_GOAL` that fail by a timeout in the second month; none does in the first."""

_ATTEMPTS = 20
"""Most times that a conversation is written until no other begins alike."""

_DISCOUNT = 0.15
"""Share of the price that a voucher saves."""

FAILING_CARRIER = "Northway"
"""The carrier whose system times out."""


class Talk:
    """One conversation while it is written.

    Attributes:
        messages: What was said so far.
        unfinished: Number of messages after which the customer's wish was still open.
    """

    def __init__(
        self, rng: Random, goal: str, day: datetime, *, failure: Failure | None, carrier: str
    ) -> None:
        """Draws the customer, the order and its items.

        Args:
            goal: Name of a section of `TEXTS.goals`.
            day: When the conversation takes place.
            failure: How the conversation goes wrong; None if it does not.
            carrier: Who delivers the order; drawn if empty.
        """
        shop, self._rng, self._failure = TEXTS.shop, rng, failure
        self.messages = [Message("system", shop.system)]
        self.unfinished = 0
        self._goal, self._name = TEXTS.goals[goal], goal
        self._voice = TEXTS.voices[rng.choice(list(TEXTS.voices))]
        items = self._goal.items or tuple(TEXTS.items)
        if goal == "exchange":
            items = tuple(name for name in items if len(TEXTS.items[name]) > 2)
        item = rng.choice(items)
        other = rng.choice([name for name in TEXTS.items if name != item])
        price, *sizes = TEXTS.items[item]
        self._size: str
        self._size, other_size = rng.sample(sizes, 2) if len(sizes) > 1 else ("", "")
        first, last = rng.choice(shop.first), rng.choice(shop.last)
        self._other = other
        self._values = {
            "item": item,
            "thing": item.split()[-1],
            "wrong": other.split()[-1],
            "first": first,
            "size": other_size,
            "price": f"£{price:.2f}",
            "saving": f"£{price * _DISCOUNT:.2f}",
            "order": f"FH-{rng.randrange(41_000, 59_000)}",
            "code": rng.choice(("SPRING15", "HELLO15", "TRAIL15", "BDAY15")),
            "email": f"{first}.{last}@mail.example".lower(),
            "address": f"{rng.randint(2, 140)} {rng.choice(shop.streets)}, {rng.choice(shop.towns)}",
            "town": rng.choice(shop.towns),
            "carrier": carrier or rng.choice(shop.carriers),
            "noun": self._goal.noun,
            "weekday": (day + timedelta(days=rng.randint(1, 4))).strftime("%A"),
            "day": (day - timedelta(days=rng.randint(3, 12))).strftime("%d %B").lstrip("0"),
            "until": (day + timedelta(days=14)).strftime("%d %B").lstrip("0"),
        }
        # Customers who are refused say that they ordered three weeks ago.
        age = rng.randint(19, 23) if failure == "refused" else rng.randint(4, 12)
        self._placed = (day - timedelta(days=age)).strftime("%Y-%m-%d")
        self._price = price

    # What is said

    def _choose(self, texts: tuple[str, ...], **values: str) -> str:
        """Returns one of the texts with its choices made and its values filled in."""
        text = self._rng.choice(texts)
        while match := _CHOICE.search(text):
            chosen = self._rng.choice(match.group(1).split("|"))
            text = text[: match.start()] + chosen + text[match.end() :]
        return Template(text).substitute(self._values | values)

    def _chance(self, probability: float) -> bool:
        """Returns True with this probability."""
        return self._rng.random() < probability

    def _customer(self, occasion: str) -> None:
        """Adds what the customer says on an occasion, in the customer's voice."""
        self.messages.append(Message("user", self._choose(self._voice[occasion])))

    def _agent(self, *texts: tuple[str, ...], **values: str) -> None:
        """Adds a message of the agent, of one text of each kind."""
        parts = [self._choose(variants, **values) for variants in texts]
        self.messages.append(Message("assistant", " ".join(part for part in parts if part)))

    def _call(
        self, name: str, result: dict[str, Any] | str, text: str = "", **arguments: Any
    ) -> None:
        """Adds a call of a tool, after a text, and its result."""
        call = ToolCall(name, json.dumps(arguments), f"call_{self._rng.getrandbits(40):010x}")
        result_text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        self.messages += [
            Message("assistant", text, tool_calls=(call,)),
            Message("tool", result_text, name=name, tool_call_id=call.call_id),
        ]

    # What happens

    def write(self) -> None:
        """Writes the conversation to its end."""
        failure = self._failure
        self.messages.append(Message("user", self._choose(self._goal.openings)))
        if failure == "loop":
            self._ask_again_and_again()
            return
        self._identify(two_items=failure == "wrong_item" or self._chance(0.3))
        if failure is not None:
            self._ask_on_the_way(0.6)
            fail: dict[Failure, Callable[[], None]] = {
                "timeout": self._time_out,
                "wrong_item": self._take_the_wrong_item,
                "refused": self._refuse,
                "gave_up": self._keep_waiting,
            }
            fail[failure]()
            self._leave()
            return
        self._ask_on_the_way(0.2)
        self.unfinished = len(self.messages)
        self._act(self._choose(self._goal.working), self._values["item"])
        also = self._name not in ("invoice", *_WITHOUT_ORDER) and self._chance(0.15)
        self._agent(self._goal.done, TEXTS.agent["anything_else"])
        if also:
            self._customer("also")
            self._call("send_invoice", {"sent": True}, order=self._values["order"])
            self._agent(TEXTS.agent["also_done"])
        else:
            self._ask_on_the_way(0.25)
        if self._chance(0.92):
            self._customer("thanks")
            self._agent(TEXTS.agent["bye"])

    def _ask_on_the_way(self, probability: float) -> None:
        """Lets the customer ask something, with this probability; the agent answers."""
        if self._chance(probability):
            question, answer = self._rng.choice(self._goal.asides)
            self.messages.append(Message("user", self._choose((question,))))
            self._agent((answer,))

    def _identify(self, *, two_items: bool) -> None:
        """Finds out whose order or account it is about, and looks it up."""
        agent, values = TEXTS.agent, self._values
        if self._name in _WITHOUT_ORDER:
            self._agent(agent["asks_email"])
            self._customer("email")
            self._call(
                "find_account", {"email": values["email"], "active": True}, email=values["email"]
            )
            return
        if values["order"] not in self.messages[-1].content:
            self._give_order_number()
        self._look_up_order(two_items=two_items)
        if two_items and self._name in ("return", "exchange", "damaged"):
            self._agent(agent["two_items"])
            self._customer("which")
        if self._name == "address":
            self._agent(agent["asks_address"])
            self._customer("address")

    def _give_order_number(self) -> None:
        """Lets the agent ask for the number of the order; one customer in eight mistypes it first."""
        agent, values = TEXTS.agent, self._values
        self._agent(agent["asks_order"])
        if not self._chance(0.12):
            self._customer("order")
            return
        order, mistyped = values["order"], f"FH-{self._rng.randrange(11_000, 19_000)}"
        values["order"] = mistyped
        self._customer("order")
        self._call("find_order", {"error": "no such order"}, order=mistyped)
        self._agent(agent["not_found"])
        values["order"] = order
        self._customer("wrong_order")

    def _look_up_order(self, *, two_items: bool) -> None:
        """Adds the call that finds the order, with its status and its items."""
        values = self._values
        items = [{"name": values["item"], "size": self._size, "price": self._price}]
        if two_items:
            items.append({"name": self._other, "size": "", "price": TEXTS.items[self._other][0]})
        status = {"track": "shipped", "cancel": "placed", "address": "placed"}
        record = {
            "order": values["order"],
            "placed": self._placed,
            "status": status.get(self._name, "delivered"),
            "carrier": values["carrier"],
            "items": [{key: value for key, value in item.items() if value} for item in items],
        }
        self._call("find_order", record, order=values["order"])

    def _act(self, text: str, item: str) -> None:
        """Calls the tool that does what the customer wants, for an item."""
        values, rng = self._values, self._rng
        order = {"order": values["order"]}
        match self._name:
            case "track":
                result = {
                    "carrier": values["carrier"],
                    "last_scan": values["town"],
                    "due": values["weekday"],
                }
                self._call("track_parcel", result, text, carrier=values["carrier"], **order)
            case "return":
                result = {
                    "return": f"R-{rng.randrange(20_000, 40_000)}",
                    "label_sent_to": values["email"],
                }
                self._call("create_return", result, text, item=item, **order)
            case "exchange":
                result = {
                    "exchange": f"E-{rng.randrange(3_000, 9_000)}",
                    "ships": values["weekday"],
                }
                self._call("create_exchange", result, text, item=item, size=values["size"], **order)
            case "address":
                result = {"updated": True, "deliver_to": values["address"]}
                self._call("change_address", result, text, address=values["address"], **order)
            case "cancel":
                self._call(
                    "cancel_order", {"cancelled": True, "refund": self._price}, text, **order
                )
            case "damaged":
                result = {"refunded": self._price, "method": "card"}
                self._call("refund_item", result, text, item=item, reason="damaged", **order)
            case "invoice":
                self._call("send_invoice", {"sent": True}, text, email=values["email"], **order)
            case "voucher":
                result = {"applied": True, "saves": round(self._price * _DISCOUNT, 2)}
                self._call("apply_voucher", result, text, code=values["code"], **order)
            case "login":
                self._call(
                    "send_reset_link", {"sent": True, "unlocked": True}, text, email=values["email"]
                )

    # What goes wrong

    def _time_out(self) -> None:
        """Adds two calls of the carrier's system that time out, and what the agent says after each."""
        carrier, order = self._values["carrier"], self._values["order"]
        error = f"Error: {carrier} gateway timed out after 30 s"
        self._call(
            "track_parcel", error, self._choose(self._goal.working), carrier=carrier, order=order
        )
        self._agent(TEXTS.agent["timeout_first"])
        self._call("track_parcel", error, carrier=carrier, order=order)
        self._agent(TEXTS.agent["timeout_last"])

    def _take_the_wrong_item(self) -> None:
        """Adds that the agent acts on the other item of the order, and cannot undo it."""
        self._act(self._choose(self._goal.working), self._other)
        self._agent(TEXTS.agent["wrong_item"])
        self._customer("objects_item")
        self._agent(TEXTS.agent["wrong_item_stuck"])

    def _refuse(self) -> None:
        """Adds that the agent refuses by a policy that is not the shop's, and again when the customer objects."""
        self._agent(TEXTS.agent["refuses"])
        self._customer("objects_policy")
        self._agent(TEXTS.agent["refuses_again"])

    def _ask_again_and_again(self) -> None:
        """Adds that the agent asks for the order number again and again, and that the customer gives up."""
        question = self._choose(TEXTS.agent["loops"])
        for occasion in ("order", "objects_loop", self._rng.choice(("objects_loop", "person"))):
            self.messages.append(Message("assistant", question))
            self._customer(occasion)
        self.messages.append(Message("assistant", question))
        self._leave()

    def _keep_waiting(self) -> None:
        """Adds that the agent says to wait twice, and that nobody comes whom the customer asks for."""
        self._agent(TEXTS.agent["waits"])
        self._customer("later")
        self._agent(TEXTS.agent["waits"])
        self._customer("person")
        queue = {"queue": "support", "free": 0, "wait_minutes": self._rng.randint(40, 60)}
        self._call("hand_over", queue, reason="customer asks for a person")
        self._agent(TEXTS.agent["no_person"])

    def _leave(self) -> None:
        """Adds that the customer gives up; some leave without a word."""
        if self._chance(0.85):
            self._customer("leaves")
            self._agent(TEXTS.agent["sorry_bye"])

    def break_off(self) -> None:
        """Cuts the conversation off at a message of the agent or the customer after which the wish was still open."""
        places = [
            index + 1
            for index, message in enumerate(self.messages[: self.unfinished])
            if index >= 2 and message.role in ("user", "assistant") and not message.tool_calls
        ]
        # An answer is where most conversations stop.
        answers = [place for place in places if self.messages[place - 1].role == "assistant"]
        del self.messages[self._rng.choice(answers * 3 + places or [self.unfinished]) :]


# Many conversations


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan of one conversation.

    Attributes:
        goal: Name of a section of `TEXTS.goals`.
        month: Index of its month in `MONTHS`.
        outcome: How the conversation ends.
        failure: How it goes wrong; None unless it fails.
    """

    goal: str
    month: int
    outcome: Outcome
    failure: Failure | None = None


def sample_conversations(count: int = 120, seed: int = 7) -> list[Conversation]:
    """Returns `count` conversations of nine goals in uneven shares, in order of time; hardly any opening occurs twice.

    The same `count` and `seed` give the same conversations. `truth` has `goal`, `complete`, `outcome` (complete,
    broken_off, failed), `success` where it did not break off, and `failure` where it failed.
    """
    rng = Random(f"desk {seed} {count}")
    plans = _plans(count)
    rng.shuffle(plans)
    plans.sort(key=lambda plan: plan.month)
    per_month = Counter(plan.month for plan in plans)
    times = [
        MONTHS[month] + timedelta(seconds=second)
        for month in (0, 1)
        for second in sorted(rng.randrange(_DAYS * 86_400) for _ in range(per_month[month]))
    ]
    openings: set[str] = set()
    return [
        _conversation(number, plan, time, Random(f"{seed} {count} {number}"), openings)
        for number, (plan, time) in enumerate(zip(plans, times, strict=True), 1)
    ]


def _conversation(
    number: int, plan: _Plan, time: datetime, rng: Random, openings: set[str]
) -> Conversation:
    """Returns one conversation, and adds its opening to `openings`.

    A conversation whose opening is there already is written anew, up to `_ATTEMPTS` times.
    """
    for _ in range(_ATTEMPTS):
        carrier = FAILING_CARRIER if plan.failure == "timeout" else ""
        talk = Talk(rng, plan.goal, time, failure=plan.failure, carrier=carrier)
        talk.write()
        if plan.outcome == "broken_off":
            talk.break_off()
        opening = talk.messages[1].content
        if opening not in openings:
            break
    openings.add(opening)
    truth: dict[str, Any] = {
        "goal": TEXTS.goals[plan.goal].name,
        "complete": plan.outcome == "complete",
        "outcome": plan.outcome,
    }
    if plan.outcome != "broken_off":
        truth["success"] = plan.outcome == "complete"
    if plan.failure is not None:
        truth["failure"] = plan.failure
    return Conversation(
        external_id=f"desk-{number:04d}",
        messages=tuple(talk.messages),
        truth=truth,
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


class _RoundingShares:
    """Rounds expected counts of conversations, so that the counts of a kind add up to nearly what was expected."""

    def __init__(self) -> None:
        """Begins with nothing to carry on."""
        self._left: dict[str, float] = {}

    def take(self, kind: str, expected_count: float, available: int) -> int:
        """Returns how many of the available conversations get a kind; the rounding is carried to its next call."""
        due = self._left.get(kind, 0.0) + expected_count
        count = max(0, min(available, int(due + 0.5)))
        self._left[kind] = due - count
        return count


def _plans(count: int) -> list[_Plan]:
    """Returns the plans of the conversations: goals in their shares, half of each goal in each month."""
    total = sum(goal.share for goal in TEXTS.goals.values())
    shares, plans = _RoundingShares(), list[_Plan]()
    for name, goal in TEXTS.goals.items():
        size = shares.take("goal", count * goal.share / total, count - len(plans))
        first = shares.take("month", size / 2, size)
        plans += _plans_of_month(name, 0, first, shares)
        plans += _plans_of_month(name, 1, size - first, shares)
    return plans


def _plans_of_month(name: str, month: int, size: int, shares: _RoundingShares) -> Iterator[_Plan]:
    """Yields the plans of the conversations of one goal in one month: failures first, then those that break off."""
    free = size
    share_by_failure = {
        failure: of_goal.get(name, 0.0) for failure, of_goal in _FAILURE_SHARES.items()
    }
    share_by_failure["timeout"] = (
        _SHARE_OF_TIMEOUTS if (TEXTS.goals[name].name, month) == (CHANGED_GOAL, 1) else 0.0
    )
    for failure, share in share_by_failure.items():
        count = shares.take(failure, share * size, free) if share else 0
        free -= count
        for _ in range(count):
            yield _Plan(name, month, "failed", failure)
    broken_off = shares.take("broken_off", _SHARE_BROKEN_OFF * size, free)
    for index in range(free):
        yield _Plan(name, month, "broken_off" if index < broken_off else "complete")


def write_jsonl(conversations: Iterable[Conversation], path: str | PathLike[str]) -> None:
    """Writes the conversations in the uniform form, one JSON object a line, UTF-8.

    Raises:
        ProjectError: The file cannot be written.
    """
    with write_beside(Path(path)) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        for conversation in conversations:
            file.write(json.dumps(_record(conversation), ensure_ascii=False) + "\n")


def _record(conversation: Conversation) -> dict[str, Any]:
    """Returns a conversation in the uniform form."""
    return {
        "id": conversation.external_id,
        "dataset": "demo",
        "messages": [_message(message) for message in conversation.messages],
        "truth": conversation.truth,
        "created_at": conversation.created_at,
    }


def _message(message: Message) -> dict[str, Any]:
    """Returns a message in the uniform form; keys without a value are left out."""
    record: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name is not None:
        record["name"] = message.name
    if message.tool_calls:
        record["tool_calls"] = [
            {"id": call.call_id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        record["tool_call_id"] = message.tool_call_id
    return record
