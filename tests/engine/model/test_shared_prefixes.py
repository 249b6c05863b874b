"""Common prefixes of prompts, on the toy model, which raises where a real cache would give a wrong answer."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.batched_replies import generate, share_prefixes
from engine.model.generation import Task, write
from engine.model.interface import Sampling
from tests.engine.model.toy import ROOMY, ToyModel

RULES = b"You are the assistant of a library. Be brief, and lend no maps to anybody." * 2
CASE = b" The card of this reader is blocked until the third of May."


def tasks(*prompts: bytes, max_tokens: int = 6) -> list[Task]:
    return [
        Task(list(prompt), Sampling(), max_tokens, seed=at) for at, prompt in enumerate(prompts)
    ]


def shared(model: ToyModel, wanted: list[Task]) -> tuple[list[Task], int]:
    return share_prefixes(model, wanted, range(32, 64))


def texts(model: ToyModel, wanted: list[Task]) -> list[tuple[int, ...]]:
    """Replies to prompts with common prefixes."""
    some, source_tokens = shared(model, wanted)
    return [reply.tokens for reply in write(model, some, range(8), source_tokens=source_tokens)]


class TestWhatIsShared:
    def test_once(self) -> None:
        """The prefix of all prompts is decoded once, each prompt decodes its own rest, and replies are unchanged."""
        wanted = tasks(*(RULES + bytes([65 + at]) * 9 for at in range(6)))
        model = ToyModel()
        some, source_tokens = shared(model, wanted)
        assert source_tokens == model.decoded == len(RULES)
        assert {task.decoded for task in some} == {len(RULES)}
        plain = [reply.tokens for reply in generate(ToyModel(), wanted)]
        assert texts(ToyModel(), wanted) == plain


class TestWhatIsNot:
    def test_models_that_cannot_be_forked(self) -> None:
        """Recurrent models decode each prompt from its start."""
        wanted = tasks(RULES + b"x", RULES + b"y")
        model = ToyModel(replace(ROOMY, forkable=False))
        assert shared(model, wanted) == (wanted, 0)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.sampled_from([b"r", b"c", b"1", b"2"]), max_size=5), max_size=9))
def test_replies_do_not_change(parts: list[list[bytes]]) -> None:
    """Each reply is the same as without shared prefixes."""
    long = {b"r": RULES, b"c": CASE, b"1": b"one", b"2": b"two"}
    wanted = tasks(*(b"^" + b"".join(long[one] for one in part) for part in parts), max_tokens=4)
    plain = [reply.tokens for reply in generate(ToyModel(), wanted)]
    assert texts(ToyModel(), wanted) == plain
