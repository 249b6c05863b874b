"""Text that many conversations share."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.conversations.shared_text import NOTHING_SHARED, Texts, find_shared_text
from engine.conversations.tables.shared_text import opening

PROMPT = (
    "You are an agent that works for a shop and answers in one line. Every round I will give you an\n"
    "observation, and you have to respond with one action.\n\nActions:\n- search\n- buy\n\n"
    "Your response must use the following format, or the trial ends at once:\nThought:\nAction:"
)
"""Instructions of more than `MIN_LONG_WORDS` words."""
GOALS = tuple(
    f"please find item number {n} in colour {n * 7 % 13} for my {n * 5 % 11} friends"
    for n in range(40)
)


def with_prompt(goals: tuple[str, ...] = GOALS, prompt: str = PROMPT) -> list[Texts]:
    """Conversations with the instructions and a goal in the first message of the user."""
    return [
        {"user": (f"{prompt}\n{goal}",), "assistant": ("OK.", f"Bought {goal[-9:]}.")}
        for goal in goals
    ]


def words(text: str) -> list[str]:
    """The words of a text."""
    return re.findall(r"\S+", text)


def is_part(small: list[str], large: list[str]) -> bool:
    """Whether the words are among those of the other text, in that order."""
    rest = iter(large)
    return all(word in rest for word in small)


LINES = st.lists(
    st.sampled_from(
        [
            "Thought:",
            "Action:",
            "yes",
            "",
            "a b c d e f g h",
            *PROMPT.split("\n"),
            *GOALS[:6],
            "请帮我订一张去北京的机票好吗",
        ]
    ),
    max_size=8,
).map("\n".join)
CONVERSATIONS = st.lists(
    st.fixed_dictionaries({"user": st.lists(LINES, max_size=3), "assistant": st.lists(LINES, max_size=3)}),
    max_size=30,
)  # fmt: skip


class TestWhatIsFound:
    def test_instructions_go_and_goals_stay(self) -> None:
        """Of instructions that all conversations begin with nothing is left, and of goals everything."""
        shared = find_shared_text(with_prompt())
        for one, goal in zip(with_prompt(), GOALS, strict=True):
            assert shared.without("user", one["user"][0]) == goal
        assert shared.without("assistant", "OK.") == ""
        assert shared.without("assistant", "Bought it.") == "Bought it."

    def test_one_agent_of_many(self) -> None:
        """Instructions of a tenth of the conversations are found; of fewer they are not."""
        others: list[Texts] = [{"user": (f"what is {n} times {n}?",)} for n in range(360)]
        assert find_shared_text([*with_prompt(), *others]).without("user", PROMPT) == ""
        assert not find_shared_text([*with_prompt(GOALS[:30]), *others])

    def test_short_text_of_some_is_not_shared(self) -> None:
        """A sentence that half of the conversations repeat stays; one more and it goes."""
        half: list[Texts] = [{"user": ("Cancel my flight to Rome.", str(n))} for n in range(20)]
        others: list[Texts] = [{"user": (f"Where is parcel {n}?",)} for n in range(20)]
        assert not find_shared_text([*half, *others])
        assert (
            find_shared_text([*half, *others[:-1]]).without("user", "Cancel my flight to Rome.")
            == ""
        )

    def test_roles_are_apart(self) -> None:
        """What assistants say is not left out of what users say."""
        shared = find_shared_text(
            [{"user": (goal,), "assistant": ("How can I help?",)} for goal in GOALS]
        )
        assert shared.without("assistant", "How can I help?") == ""
        assert shared.without("user", "How can I help?") == "How can I help?"


class TestWithout:
    @settings(max_examples=20)
    @given(CONVERSATIONS)
    def test_nothing_but_shared_text_is_removed(self, conversations: list[Texts]) -> None:
        """What is left are words of the text in their order, and all words that are in no shared text."""
        shared = find_shared_text(conversations)
        for one in conversations:
            for role, texts in one.items():
                known = {
                    word
                    for block in shared.blocks
                    if block.role == role
                    for word in words(block.text)
                }
                for text in texts:
                    left = words(shared.without(role, text))
                    assert is_part(list("".join(left)), list("".join(words(text))))
                    rest = [word for word in words(text) if not known.intersection([word, *word])]
                    assert is_part([w for w in rest if re.search(r"\w", w)], left)


def test_an_opening_has_no_markup() -> None:
    """Of a body that is HTML, lists show the text."""
    assert opening([("user", "<p>Cancel <b>it</b></p>")], NOTHING_SHARED) == "Cancel it"
