"""Examples of the goal questions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import pytest

from engine.goals.questions.questions import read_label, read_summary
from engine.goals.questions.teaching import (
    KINDS,
    LEAST_TEXTS,
    Kind,
    Known,
    Lesson,
    Unfinished,
    label_reply,
    lessons,
    remaining_reply,
)
from engine.model.prompting import parse_prompt, prompt_text

PROMPTS = {kind: parse_prompt(kind, prompt_text(kind)) for kind in KINDS}
COUNTS: Mapping[Kind, int] = {"summary": 12, "label": 6, "merge": 24, "remaining": 3}
GOALS = {
    "ride_book": "taxi to the station", "hotel_book": "room in a hotel", "weather": "rain in the town",
    "bank_balance": "money on the account", "hotel_book+weather": "room in a hotel and rain",
}  # fmt: skip


def known(each: int = 30, source: str = "made") -> list[Known]:
    """Conversations whose opening holds the words of their goal, so that what a text belongs to can be seen."""
    return [
        Known(
            f"{goal}-{number}", source, (f"TURN 1, STEP 1, user chat:\n{words} {number}",), 1,
            f"I ask about {words}, number {number}", goal, f"get {words}, number {number}",
        )
        for goal, words in GOALS.items()
        for number in range(each)
    ]  # fmt: skip


UNFINISHED = [
    Unfinished(f"cut-{at}", (f"log {at}",), 0, ("book a seat", "send the receipt")[: 1 + at % 2])
    for at in range(4)
]


@pytest.fixture(scope="module")
def made() -> list[Lesson]:
    """Examples of all kinds."""
    return lessons(known(), UNFINISHED, PROMPTS, COUNTS, seed=1)


def of(made: list[Lesson], kind: Kind) -> list[Lesson]:
    """The examples of one kind."""
    return [one for one in made if one.prompt.name == kind]


def groups(one: Lesson) -> dict[str, list[str]]:
    """The lists of a question by name; for each text the goal whose words it holds."""
    found: dict[str, list[str]] = {}
    for part in one.texts[0].split("\n\n"):
        name, *lines = part.split("\n")
        found[name.strip("[]")] = [
            goal for line in lines for goal, words in GOALS.items() if f"{words}, number" in line
        ]
    return found


class TestAll:
    def test_as_many_as_asked_for(self, made: list[Lesson]) -> None:
        """Each kind has its number, and no id comes twice."""
        assert Counter(one.prompt.name for one in made) == COUNTS
        assert len({one.id for one in made}) == len(made)

    def test_the_seed_decides(self, made: list[Lesson]) -> None:
        """The same seed gives the same examples, another one others."""
        assert lessons(known(), UNFINISHED, PROMPTS, COUNTS, seed=1) == made
        assert lessons(known(), UNFINISHED, PROMPTS, COUNTS, seed=2) != made

    def test_too_little_gives_less(self) -> None:
        """Without two goals of enough conversations there are no questions about lists."""
        found = lessons(known(each=2), [], PROMPTS, COUNTS, seed=1)

        assert {one.prompt.name for one in found} == {"summary"}
        assert len(found) == 2 * len(GOALS)


class TestSummaries:
    def test_goals_by_turns(self, made: list[Lesson]) -> None:
        """No goal has two more than another, and a reply is what a summary is tidied to."""
        goals = Counter(one.id.split(":")[1].rsplit("-", 1)[0] for one in of(made, "summary"))
        assert set(goals) == set(GOALS)
        assert max(goals.values()) - min(goals.values()) <= 1
        for one in of(made, "summary"):
            text, reason = read_summary(one.prompt, one.reply, cut=False)
            assert (text, reason) == (one.prompt.reply + one.reply, None)


class TestLists:
    def test_yes_and_no_are_as_many_and_both_ways_round(self, made: list[Lesson]) -> None:
        """Each pair is asked about in both orders with one answer, and half of the answers are yes."""
        asked = of(made, "merge")
        assert Counter(one.reply for one in asked) == {"Yes": 12, "No": 12}
        pairs = [
            (one, next(o for o in asked if o.id == one.id[:-1] + "1"))
            for one in asked
            if one.id.endswith(":0")
        ]
        assert len(pairs) == 12
        for one, other in pairs:
            assert one.reply == other.reply
            there, back = groups(one), groups(other)
            assert (there["GROUP 1"], there["GROUP 2"]) == (back["GROUP 2"], back["GROUP 1"])

    def test_a_yes_is_about_one_goal_and_a_no_about_two(self, made: list[Lesson]) -> None:
        """The lists hold what the answer says, the third list neither; nothing is in two lists."""
        for one in of(made, "merge"):
            lists = groups(one)
            first, second = set(lists["GROUP 1"]), set(lists["GROUP 2"])
            assert len(first) == len(second) == 1
            assert (first == second) == (one.reply == "Yes")
            assert not set(lists["NOT IN GROUP"]) & (first | second)
            lines = [line for line in one.texts[0].splitlines() if line.startswith("- ")]
            assert len(lines) == len(set(lines)) >= 3 * LEAST_TEXTS

    def test_a_label_fits_the_members(self, made: list[Lesson]) -> None:
        """The group is of the goal that the reply names, the other list of others, and the label is read as it is."""
        for one in of(made, "label"):
            goal = one.id.rsplit("/", 1)[1]
            lists = groups(one)
            assert set(lists["GROUP"]) == {goal}
            assert goal not in lists["NOT IN GROUP"]
            assert one.reply == label_reply(goal)

    def test_several_goals_at_once_are_not_asked_about(self, made: list[Lesson]) -> None:
        """Whether a goal is one with a part of it is not known."""
        asked = [one for one in made if one.prompt.name in ("merge", "label")]

        assert not any(
            "hotel_book+weather" in goals for one in asked for goals in groups(one).values()
        )


@pytest.mark.parametrize("goal", ["sql", "travel/seat", "ride_book", "no database change", "a+b+c"])
def test_a_label_follows_its_grammar(goal: str) -> None:
    """Short and long names alike give what the grammar of labels allows, and the label is kept."""
    reply = label_reply(goal)

    assert re.fullmatch(
        r" [A-Z][^\n?:<>\[\]{}]{3,60}\nSentence: The user wants to [^\n.]{8,220}\.", reply
    )
    assert read_label(reply, ["word"]).reason == ""


@pytest.mark.parametrize(
    ("tasks", "reply"),
    [
        (("pay",), " pay."),
        (("pay", "leave"), " pay and leave."),
        (("pay", "call", "leave"), " pay, call and leave."),
    ],
)
def test_tasks_are_one_sentence(tasks: tuple[str, ...], reply: str) -> None:
    """The last is joined by `and`."""
    assert remaining_reply(tasks) == reply
