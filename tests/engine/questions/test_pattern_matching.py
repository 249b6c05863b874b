"""Patterns: what they match, which places they name, and that none can hang."""

from __future__ import annotations

import time

import pytest

from engine.base.conversation import Message, ToolCall
from engine.base.errors import FormatError, UsageError
from engine.questions.pattern_matching import MAX_CHARACTERS, PatternMatcher
from engine.questions.question import Question, make_slug, parse_question, read_built_in

TALK = (
    Message("system", "Never say sorry."),
    Message("user", "Ich hätte gern die Größe 40."),
    Message("assistant", "", tool_calls=(ToolCall("stock", '{"size": 40}', "a"),)),
    Message("tool", "Error: timeout", tool_call_id="a"),
    Message("assistant", "I am SORRY. Unsorry things happen."),
    Message("user", "你好，算了吧"),
)


def question(pattern: str, kind: str = "yes-no") -> Question:
    return parse_question("q", f'text = "?"\nkind = "{kind}"\n[[patterns]]\n{pattern}\n')


@pytest.mark.parametrize(
    ("pattern", "cites"),
    [
        ('words = ["sorry"]', [(4, 5, 10)]),
        ('words = ["größe", "never"]', [(1, 19, 24)]),
        ('words = ["算了"]', [(5, 3, 5)]),
        ('words = ["orry"]', []),
        ('words = ["am sorry"]', [(4, 2, 10)]),
        ('words = ["sorry"]\nroles = ["system"]', [(0, 10, 15)]),
        ('regex = "s[a-z]+y\\\\b"', [(4, 14, 19)]),
        ('words = ["timeout"]\ntools = ["stock"]', [(3, 7, 14)]),
        ('words = ["timeout"]\ntools = ["other"]', []),
        ('tools = ["stock"]', [(2, 0, 0), (3, 0, 0)]),
        ('words = ["size"]', [(2, 0, 0)]),
        ('words = ["size", "sorry"]\nposition = "last"\nroles = ["assistant"]', [(4, 5, 10)]),
        ('words = ["sorry"]\nleast = 2', []),
    ],
)
def test_places(pattern: str, cites: list[tuple[int, int, int]]) -> None:
    """A pattern finds words by their edges in any script, a regex its match, each within roles, tools and positions."""
    value, found = PatternMatcher(question(pattern)).answer(TALK)
    assert list(found) == cites
    assert value == ("yes" if cites else "no")


def test_the_first_pattern_that_matches_answers() -> None:
    """Patterns are tried in their order, and the answer of none is what the file says."""
    file = """
    text = "Which mood?"
    kind = "choice"
    otherwise = "calm"
    [labels]
    angry = ""
    sad = ""
    calm = ""
    [[patterns]]
    answer = "angry"
    words = ["rage"]
    [[patterns]]
    answer = "sad"
    words = ["sorry", "rage"]
    """
    matcher = PatternMatcher(parse_question("mood", file))
    assert matcher.answer(TALK)[0] == "sad"
    assert matcher.answer(TALK[:2]) == ("calm", ())


def test_no_expression_can_hang() -> None:
    """What backtracking engines try for ages, and a message of a million characters, take no time; the end is read."""
    text = "a" * 1_000_000
    matcher = PatternMatcher(question('regex = "(a+)+$b|(a|aa)+c"'))
    begin = time.process_time()
    assert matcher.answer((Message("user", text),)) == ("no", ())
    assert time.process_time() - begin < 2
    end = PatternMatcher(question('words = ["last"]')).answer((Message("user", f"{text} last"),))
    assert end == ("yes", ((0, 1_000_001, 1_000_005),))
    assert PatternMatcher(question('words = ["mid"]')).answer(
        (Message("user", f"{'a ' * MAX_CHARACTERS}mid{' a' * MAX_CHARACTERS}"),)
    ) == ("no", ())


@pytest.mark.parametrize(
    "pattern", ['regex = "(?=a)"', 'regex = "("', 'words = ["a"]\nregex = "b"', 'roles = ["user"]']
)
def test_what_cannot_be_matched_is_refused(pattern: str) -> None:
    """An expression that RE2 does not know, both kinds or none of them are refused with the way out."""
    with pytest.raises(UsageError) as caught:
        PatternMatcher(question(pattern))
    assert caught.value.hint


@pytest.mark.parametrize(
    "file",
    [
        "",
        "text = 3",
        'text = "?"\nkind = "choice"',
        'text = "?"\ncolour = "red"',
        'text = "?"\n[[patterns]]\nanswer = "perhaps"\nwords = ["a"]',
    ],
)
def test_a_file_that_is_no_question(file: str) -> None:
    """A file without text or labels, with a field that nobody reads or an answer that nobody can give, is refused."""
    with pytest.raises(FormatError):
        parse_question("q", file)


def test_the_questions_of_the_program_can_be_asked() -> None:
    """Each can be read under its own name, and its patterns work."""
    assert {"succeeded", "note", "refused", "diversity"} <= set(read_built_in())
    for name, each in read_built_in().items():
        assert (each.name, make_slug(name)) == (name, name)
        if each.patterns:
            PatternMatcher(each)


def test_the_rubric_has_the_words_of_its_source() -> None:
    """The README of RecLLMSim has words for three ratings, which stand in their questions letter for letter."""
    rubrics = {
        "detail-level": (
            "Low: Vague or brief responses (e.g., listing destination names without descriptions in a travel plan).",
            "Medium: Responses between these extremes.",
            "High: In-depth responses with detailed explanations (e.g., a recipe including specific ingredients and"
            " step-by-step instructions).",
        ),
        "diversity": (
            "Low: Only one or two options provided per query.",
            "Medium: Some queries have three or more options, while others are limited.",
            "High: All queries include three or more diverse options.",
        ),
        "practical-usefulness": (
            "Not usable: Unrealistic plans (e.g., an overly tight travel schedule or learning plans with unreasonably"
            " fast progress).",
            "Somewhat usable: Partially applicable suggestions (e.g., gift ideas that provide inspiration but are"
            " difficult to implement).",
            "Highly usable: Practical and actionable plans (e.g., a Python learning plan with achievable milestones).",
        ),
    }
    for name, texts in rubrics.items():
        assert dict(read_built_in()[name].labels) == dict(zip("012", texts, strict=True))


def test_answers_that_a_question_can_have() -> None:
    """What was typed becomes an answer whatever its case; several in the order of the labels; others are refused."""
    labels = '[labels]\nA = ""\nB = ""\n'
    several = parse_question("q", f'text = "?"\nkind = "several"\n{labels}')
    assert several.answer("b, a") == "A,B"
    number = parse_question("q", 'text = "?"\nkind = "number"')
    assert number.answer(" -1.5 ") == "-1.5"
    assert read_built_in()["succeeded"].answer("YES") == "yes"
    for each, text in (
        (several, "C"),
        (number, "many"),
        (read_built_in()["succeeded"], "complete"),
    ):
        with pytest.raises(UsageError):
            each.answer(text)
