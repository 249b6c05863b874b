"""Phrases read from clauses: what is asked for, with the verb and whole noun phrases."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.goals.labels.phrases import MAX_PHRASE_WORDS, phrases, verbs_of
from engine.goals.labels.spaceless_phrases import SpacelessPhrases
from engine.goals.labels.word_kinds import FUNCTION_WORDS, REQUEST_VERBS, stem


def asked(text: str) -> list[str]:
    """The phrases that a text asks for, in its order."""
    return [" ".join(one.words) for one in phrases(text, REQUEST_VERBS) if one.request_index >= 0]


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        (
            "Hi, could you help me search for a one way flight please?",
            "search for a one-way flight",
        ),
        ("I'd like to book two tickets to an event.", "book tickets to an event"),
        ("My name is Mark and I want to schedule a viewing for 4 pm.", "schedule a viewing"),
        ("I'm looking for a cheap asian restaurant", "look for an asian restaurant"),
        ("i am looking for a queen size bed with price lower than 50", "look for a queen size bed"),
        ("I need a rental car please.", "get a rental car"),
        ("what is the weather like today", "get the weather"),
        ("Can you help me with booking a hotel room in Paris?", "book a hotel room in paris"),
        ("Please give me directions to the gas station", "get directions to the gas station"),
        ("take me to the nearest mall", "go to the nearest mall"),
        ("I am interested in finding a movie that I can watch", "find a movie"),
        ("Your task is to find the flag in the file", "find the flag in the file"),
        ("Show all template type codes and descriptions.", "get template type codes"),
        ("set a reminder to take medicine at 5", "set a reminder to take medicine"),
        ("watch a movie online", "watch a movie online"),
        ("I'd like to cancel all of my upcoming flights", "cancel my flights"),
    ],
)
def test_what_is_asked_for(text: str, phrase: str) -> None:
    """A request gives its verb with its object, without openings, numbers and what follows."""
    assert phrase in asked(text)


@pytest.mark.parametrize(
    "text", ["Yes please.", "Thanks, that is all!", "At 4:45 on the 12th", "7402", ""]
)
def test_nothing_is_asked_for(text: str) -> None:
    """Answers and thanks ask for nothing."""
    assert asked(text) == []


@pytest.mark.parametrize(
    ("text", "left_out", "there"),
    [
        ("Generate for a schema the missing keys", "generate for a schema", None),
        ("Remind me about tennis", "remind about tennis", None),
        ("Look for a flight", None, "look for a flight"),
        ("Sign up for a course", None, "sign up for a course"),
        ("find me a moderately priced restaurant", "priced restaurant", None),
        ("Dispute an unauthorized charge", None, "dispute an unauthorized charge"),
    ],
)
def test_verbs_keep_their_object(text: str, left_out: str | None, there: str | None) -> None:
    """No phrase joins a verb that needs an object to a preposition, nor begins with the participle of an adverb."""
    found = [" ".join(one.words) for one in phrases(text, REQUEST_VERBS)]
    assert left_out not in found
    assert there is None or there in found


_WRITTEN = (
    "I want to find a hotel in Paris . please book 2 cheap tickets for my wife and cancel it , don't can you help me"
    " with the U-Bahn station's opening hours ? https://a.b/c x_y 我想订机票 « naïve » -- (really) is it going to rain"
    " looking for online running shoes what's up"
)
_PIECES = st.sampled_from([*_WRITTEN.split(), "\n"])


@settings(max_examples=30)
@given(st.lists(_PIECES, max_size=30).map(" ".join) | st.text(max_size=200))
def test_form(text: str) -> None:
    """A phrase has 2 to 6 words, ends with a content word and has no number, for any text."""
    for one in phrases(text, REQUEST_VERBS):
        assert 2 <= len(one.words) <= MAX_PHRASE_WORDS
        assert one.words[-1] not in FUNCTION_WORDS
        assert one.content
        assert not any(character.isdigit() for word in one.words for character in word)
        assert one.verb or not FUNCTION_WORDS.intersection((one.words[0], one.words[-1]))


def test_no_word_twice() -> None:
    """No phrase says a word twice, but for articles."""
    found = asked("I need to get the route to get home.")
    assert "get the route" in found
    assert not any("get home" in one for one in found)
    assert "get the rating of the hotel" in asked("I need to get the rating of the hotel.")


def test_no_noun() -> None:
    """What stands before "one" or "ones" is no noun phrase, for its noun stands elsewhere."""
    assert asked("Please count the WARN ones.") == []
    assert "count the lines" in asked("Please count the WARN lines.")


@settings(max_examples=30)
@given(st.lists(_PIECES, max_size=30).map(" ".join))
def test_same_text_same_phrases(text: str) -> None:
    """Case and doubled spaces of a line do not change its phrases."""
    plain = [one.words for one in phrases(text, REQUEST_VERBS)]
    assert [one.words for one in phrases(text.upper().replace(" ", "  "), REQUEST_VERBS)] == plain


def test_verbs_of_a_field() -> None:
    """A word that follows openings in three texts is a verb; one that does in two is none."""
    texts = ["Can you frobnicate the valve?"] * 3 + ["I need to grommet the valve."] * 2
    assert {"frobnicate", "grommet"} & verbs_of(texts) == {"frobnicate"}


@pytest.mark.parametrize(
    ("word", "expected"),
    [("tickets", "ticket"), ("cities", "city"), ("boxes", "box"), ("bus", "bus"), ("class", "class"), ("gas's", "gas")],
)  # fmt: skip
def test_stem(word: str, expected: str) -> None:
    """Endings of plural and possessive are left out, and nothing else."""
    assert stem(word) == expected


class TestWithoutSpaces:
    TEXTS = (
        "我想申请退款", "请帮我申请退款", "这个订单可以申请退款吗", "买错了，想申请退款", "我要申请退款，商品坏了",
        "请帮我查询物流信息", "想查询物流信息", "查询物流信息", "能不能帮我查询一下物流信息", "物流信息一直没有更新",
    )  # fmt: skip

    def test_whole_words(self) -> None:
        """Runs that are used in many surroundings are phrases; runs that cut a word are none."""
        spaceless = SpacelessPhrases(self.TEXTS)
        assert spaceless.is_phrase("申请退款")
        assert spaceless.is_phrase("物流信息")
        assert not spaceless.is_phrase("物流信")
        assert not spaceless.is_phrase("流信息")

    def test_request(self) -> None:
        """What stands after the opening of a request begins with its verb; measure words are left out."""
        found = list(SpacelessPhrases(self.TEXTS).of("能不能帮我查询一下物流信息"))
        assert ("查询物流信息", "do", 0) in [
            (*one.words, one.verb, one.request_index) for one in found
        ]

    def test_other_scripts(self) -> None:
        """Texts with spaces give nothing."""
        assert list(SpacelessPhrases(["book a flight"]).of("book a flight")) == []

    def test_order_of_texts(self) -> None:
        """The counts do not depend on the order of the texts."""
        shuffled = random.Random(3).sample(self.TEXTS, len(self.TEXTS))
        one, other = SpacelessPhrases(self.TEXTS), SpacelessPhrases(shuffled)
        for text in self.TEXTS:
            assert list(one.of(text)) == list(other.of(text))
