"""No closing phrase separates complete sample conversations from others, so the keyword baseline is weak on them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from engine.base.conversation import Message
from tests.engine.simulate.demo.corpus import with_outcome

BOUND = 0.75
CLOSING_WORDS = re.compile(
    r"\b(thanks?|thx|cheers|bye|goodbye|welcome|glad|happy|pleasure|enjoy|take care|any ?time"
    r"|have a (nice|great|good)|anything else|that's (all|everything|it)|this is (all|everything|it)"
    r"|safe travels|confirmed|done|booked|filed|received|ordered|order|hope|perfect|great|lovely)\b"
)

Messages = Sequence[Message]


def cut(messages: Messages, rng: Random) -> Messages:
    """The conversation up to a random boundary before its last one."""
    boundaries = [
        at
        for at in range(1, len(messages))
        if messages[at].role == "user" and messages[at - 1].role in ("assistant", "tool")
    ]
    return messages[: rng.choice(boundaries)]


def phrases(messages: Messages, last: int) -> set[str]:
    """Words, numbers, punctuation and pairs of neighbours in the last messages."""
    text = " ".join(message.content.lower() for message in messages[-last:])
    words = re.findall(r"[\w']+|[?!.#]", text)
    return {*words, *map(" ".join, pairwise(words))}


def balanced(hits: float, false_hits: float) -> float:
    """The balanced accuracy of a rule or its negation, whichever is higher."""
    return 0.5 + abs(hits - false_hits) / 2


def best_phrase(complete: Sequence[Messages], other: Sequence[Messages], last: int) -> float:
    """The best rule of one phrase, chosen on the conversations that it is tested on."""
    yes = Counter(p for m in complete for p in phrases(m, last))
    no = Counter(p for m in other for p in phrases(m, last))
    return max(balanced(yes[p] / len(complete), no[p] / len(other)) for p in {*yes, *no})


def word_list(complete: Sequence[Messages], other: Sequence[Messages], last: int) -> float:
    """The rule of a list of closing words."""

    def share(group: Sequence[Messages]) -> float:
        texts = (" ".join(m.content.lower() for m in messages[-last:]) for messages in group)
        return sum(CLOSING_WORDS.search(text) is not None for text in texts) / len(group)

    return balanced(share(complete), share(other))


def learned_list(complete: Sequence[Messages], other: Sequence[Messages], last: int) -> float:
    """Lists of eight phrases for or against, learned greedily on one half and tested on the other."""
    groups = [[phrases(m, last) for m in complete], [phrases(m, last) for m in other]]
    scores = []
    for wanted, unwanted in (groups, groups[::-1]):
        for half in (0, 1):
            chosen = learn(wanted[half::2], unwanted[half::2])
            seen = [
                sum(bool(chosen & found) for found in group[1 - half :: 2])
                / len(group[1 - half :: 2])
                for group in (wanted, unwanted)
            ]
            scores.append(0.5 + (seen[0] - seen[1]) / 2)
    return max((scores[0] + scores[1]) / 2, (scores[2] + scores[3]) / 2)


def learn(wanted: Sequence[set[str]], unwanted: Sequence[set[str]]) -> set[str]:
    chosen: set[str] = set()
    for _ in range(8):
        left = [found for found in wanted if not found & chosen]
        against = [found for found in unwanted if not found & chosen]
        yes, no = (Counter(p for found in group for p in found) for group in (left, against))
        if not yes:
            break
        chosen.add(max(sorted(yes), key=lambda p: yes[p] / len(wanted) - no[p] / len(unwanted)))
    return chosen


@pytest.mark.parametrize("rule", [best_phrase, word_list, learned_list])
@pytest.mark.parametrize("last", [1, 2])
class TestKeywordRules:
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_complete_against_the_same_cut_short(self, rule, last: int, seed: int) -> None:  # type: ignore[no-untyped-def]
        """In the truncation test no rule on closing words reaches 0.75 balanced accuracy."""
        rng = Random(seed)
        complete = [c.messages for c in with_outcome("complete")]
        assert rule(complete, [cut(m, rng) for m in complete], last) < BOUND

    def test_complete_against_broken_off(self, rule, last: int) -> None:  # type: ignore[no-untyped-def]
        """Against conversations that were interrupted no rule reaches it either."""
        complete = [c.messages for c in with_outcome("complete")]
        assert rule(complete, [c.messages for c in with_outcome("broken_off")], last) < BOUND


def test_the_rules_find_an_ending_that_gives_itself_away() -> None:
    """With a goodbye added to every complete conversation the rules pass 0.9, so they do find such phrases."""
    rng = Random(0)
    goodbye = Message("assistant", "Thanks for calling, goodbye!")
    complete = [(*c.messages, goodbye) for c in with_outcome("complete")]
    others = [cut(c.messages, rng) for c in with_outcome("complete")]
    assert best_phrase(complete, others, 1) > 0.9
    assert word_list(complete, others, 1) > 0.7
    assert learned_list(complete, others, 1) > 0.9
