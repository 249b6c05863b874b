"""The signs of trouble in conversations that were written to show them."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from engine.base.conversation import Message, ToolCall
from engine.base.sign import Sign, SignReading
from engine.signs.reading import read_signs


def chat(*texts: str) -> list[Message]:
    """A conversation of user and assistant in turn."""
    return [Message("assistant" if index % 2 else "user", text) for index, text in enumerate(texts)]


def agent(*results: str, query: str = "{}") -> list[Message]:
    """A run of an agent that searches once for each result, and then answers."""
    messages = [Message("user", "Look for the parcel.")]
    for result in results:
        messages.append(Message("assistant", "", tool_calls=(ToolCall("search", query),)))
        messages.append(Message("tool", result))
    return [*messages, Message("assistant", "Here is the parcel.")]


def sign_of(sign: Sign, messages: list[Message]) -> SignReading | None:
    """A sign of a conversation; None if it does not have it."""
    return next((each for each in read_signs(messages) if each.sign == sign), None)


def test_a_quiet_conversation_has_no_sign() -> None:
    """A conversation that is answered and thanked for has no sign of trouble."""
    assert read_signs(chat("Where is Rome?", "In Italy.", "Thank you!", "You are welcome.")) == []


@pytest.mark.parametrize(
    "text",
    [
        "Sorry, I can’t do that.",
        "Das kann ich leider nicht.",
        "Je suis désolé.",
        "Lo siento mucho.",
        "Infelizmente, não posso.",
        "Purtroppo no.",
        "Helaas niet.",
        "Niestety nie.",
        "К сожалению, нет.",
        "Maalesef.",
        "很抱歉，我无法帮您。",
        "申し訳ございません。",
        "죄송합니다.",
    ],
)
def test_refusals_are_read_in_many_languages(text: str) -> None:
    """A refusal is read in each language with a list of words; of the last answer it is a sign of its own."""
    signs = read_signs(chat("Hello", text, "?", text))
    assert [(each.sign, each.messages) for each in signs[:2]] == [
        (Sign.REFUSED, (1, 3)),
        (Sign.REFUSED_LAST, (3,)),
    ]


def test_sympathy_is_no_apology() -> None:
    """An answer that is sorry for what the user tells shows no sign; one that also refuses does."""
    quiet = chat(
        "My screen flickers.",
        "Sorry to hear that. How old is it?",
        "A year.",
        "Es tut mir leid, das zu hören.",
    )
    assert sign_of(Sign.REFUSED, quiet) is None
    refused = sign_of(
        Sign.REFUSED, chat("It broke.", "I’m sorry to hear that, but I can’t replace it.")
    )
    assert refused is not None


def test_every_list_of_words_is_lower_case() -> None:
    """Phrases stand in lower case, each list once in each language, because the text is compared so."""
    for file in (resources.files("engine.signs") / "words").iterdir():
        lists = tomllib.loads(file.read_text("utf-8"))
        assert {"refusal", "complaint", "closing"} <= set(lists), file.name
        for phrases in lists.values():
            assert phrases == [phrase.lower() for phrase in phrases], file.name


@pytest.mark.parametrize(
    ("result", "is_error"),
    [
        ("Error: table singers does not exist", True),
        ('{"error": "not authorized"}', True),
        ("exit code 2", True),
        ("Error: 10:00 is taken", True),
        ("HTTP/1.1 503 Service Unavailable", True),
        ("KeyError", True),
        ('{"error": null, "rows": 3}', False),
        ('{"error_message": null, "error_count": 0}', False),
        ("finished with 0 errors", False),
        ("status: ok\nerror: none\nrows: 3", False),
        ("exit code 0", False),
        ("the terror of the seas", False),
        ("[04:34] ERROR payroll.extract column missing\nattempt 3 of 3", False),
        ("Last lines:\n2026-11-27T04:34:10Z ERROR failed\nKeyError: 'day'", False),
        ('{"log": "ERROR 2026-11-27 04:34:10 failed", "lines": ["denied"]}', False),
        ("[04:34] INFO step 1\nexit code 1", True),
        ('{"content": [{"text": "denied"}], "isError": true}', True),
        ('{"job": {"status": "Failed"}, "errors": []}', True),
        ('{"error": {"code": 0}}', True),
        ('{"rows": [["unknown", 12]], "errors": []}', False),
        ("class Vault {\n  print('access denied');\n}", False),
        ("3 files\nTraceback (most recent call last):\n  run()\nstopped", True),
    ],
)
def test_a_result_is_an_error_by_what_the_tool_says_of_itself(result: str, is_error: bool) -> None:
    """Results are errors by words, statuses and exceptions, but not by what they quote, list, or say is not there."""
    reading = sign_of(Sign.ERRORS, agent("3 rows", result))
    assert (reading is not None) == is_error
    if reading is not None:
        assert (reading.value, reading.messages) == (0.5, (4,))
        assert reading.reason == "1 of 2 results an error"
        assert sign_of(Sign.ERROR_LAST, agent("3 rows", result)) is not None
        assert sign_of(Sign.ERROR_LAST, agent(result, "3 rows")) is None


def test_the_environment_may_speak_as_the_user() -> None:
    """After a call that is written as text the message of the user is a result, not a complaint."""
    signs = read_signs(chat("Go.", "Thought: go\nAction: open[door]", "Error: wrong door."))
    assert [each.sign for each in signs] == [Sign.ERRORS, Sign.ERROR_LAST, Sign.TOOL_LAST]


def test_the_same_call_with_the_same_result_is_a_repeat() -> None:
    """Calls are the same if tool, arguments and result are; the reason says how often the most frequent one came."""
    reading = sign_of(Sign.REPEATS, agent("a", "a", "a"))
    assert reading is not None
    assert (reading.messages, reading.reason) == ((3, 5), "the same call of search 3 times")
    calls = [
        Message("assistant", "", tool_calls=(ToolCall("search", query),)) for query in ("1", "2")
    ]
    assert sign_of(Sign.REPEATS, calls) is None
    # equal calls in one message are no repeat, so the reason is that of the answer
    several = Message("assistant", "", tool_calls=(ToolCall("search", "{}"),) * 3)
    reading = sign_of(Sign.REPEATS, [several, *[Message("assistant", "Wait.")] * 2])
    assert getattr(reading, "reason", None) == "the same answer 2 times"


def test_a_call_of_the_user_at_the_end_is_no_call_of_the_assistant() -> None:
    """A message of the user that has a call asks for an answer, as any other."""
    call = Message("user", "Look.", tool_calls=(ToolCall("search", "{}"),))
    assert [each.sign for each in read_signs([call])] == [Sign.UNANSWERED]


def test_a_retry_that_succeeds_and_a_test_after_a_change_are_no_repeats() -> None:
    """A call whose result is another one than before repeats nothing, whichever results come between."""
    assert sign_of(Sign.REPEATS, agent("Error: busy", "3 rows")) is None

    def call(name: str, number: int, result: str) -> list[Message]:
        calls = (ToolCall(name, "{}", f"c{number}"),)
        return [
            Message("assistant", "", tool_calls=calls),
            Message("tool", result, tool_call_id=f"c{number}"),
        ]

    tests = [*call("test", 1, "1 failed"), *call("edit", 2, "ok"), *call("test", 3, "2 passed")]
    assert sign_of(Sign.REPEATS, tests) is None
    first, second = call("test", 1, "1 failed"), call("test", 2, "2 passed")
    assert sign_of(Sign.REPEATS, [first[0], second[0], first[1], second[1]]) is None


def test_a_complaint_is_quoted() -> None:
    """The reason quotes the user from the words of complaint to the end of the sentence; the first message, which asks
    for something, is none."""
    reading = sign_of(
        Sign.COMPLAINT,
        chat("What is wrong?", "Nothing.", "Hm. That's not what I asked! Go on.", "Ok"),
    )
    assert reading is not None
    assert (reading.messages, reading.reason) == ((2,), "user: that's not what i asked")


@pytest.mark.parametrize(
    ("text", "complains"),
    [
        ("the link is dead", True),
        ("your url gives 404", True),
        ("nobody called me back, again", True),
        ("Der Link ist tot", True),
        ("Es hat niemand angerufen", True),
        ("bis heute hat sich keiner gemeldet", True),
        ("send me the link", False),
        ("ich warte auf den Link", False),
        ("wrong street", True),
        ("sorry wrong street, i meant the other one", False),
        ("no 14, like i said", False),
        ("Sorry, falsche Straße", False),
        ("sorry, wrong number, but the link is dead", True),
    ],
)
def test_what_never_came_is_a_complaint_and_a_correction_is_none(
    text: str, complains: bool
) -> None:
    """A dead link and a call that nobody made are complaints, a user's own mistake is none, in English and German."""
    reading = sign_of(Sign.COMPLAINT, chat("Hello", "Here you are.", text, "Ok"))
    assert (reading is not None) == complains


def test_nearly_the_same_request_again_is_a_sign() -> None:
    """A user who says nearly the same again has the sign; one who asks for something else has not."""
    again = chat(
        "Book a table for two at Nino", "Which day?", "A table for two at Nino please", "Ok"
    )
    assert sign_of(Sign.ASKS_AGAIN, again) == SignReading(
        Sign.ASKS_AGAIN, 1, (2,), "the user says the same again"
    )
    assert sign_of(Sign.ASKS_AGAIN, chat("Book a table", "Ok", "And play some jazz", "Ok")) is None


def test_a_short_answer_to_a_question_asks_for_nothing_again() -> None:
    """A few words right after a question of the assistant are no repetition; after a statement they are."""
    request, answer = "Renew Dune please, it's due tomorrow", "It's 34768"
    for reply, repeats in (("Sure. Which card number?", False), ("No such book.", True)):
        reading = sign_of(Sign.ASKS_AGAIN, chat(request, reply, answer, "Done."))
        assert (reading is not None) == repeats


@pytest.mark.parametrize(
    ("text", "unanswered"),
    [
        ("And the fee?", True),
        ("Great, bye!", False),
        ("Yep, that did it.", False),
        ("Lovely, closing this.", False),
        ("Looks right to me, ta.", False),
        ("Alles klar, reicht mir so.", False),
        ("解决了，很好", False),
        ("Sounds great. Can I book it?", True),
        ("No report today. Not great.", True),
        ("Ok stop, I do it by hand.", True),
    ],
)
def test_the_last_word_of_the_user_is_a_sign_unless_it_closes(text: str, unanswered: bool) -> None:
    """A conversation that ends with the user is unanswered, unless the user is content, thanks or says goodbye."""
    assert (sign_of(Sign.UNANSWERED, chat("Hello", "Hi", text)) is not None) == unanswered


def test_what_is_hidden_from_models_is_not_read() -> None:
    """A message that the leak guard hides, and a text that it took away, give no sign."""
    hidden = Message("tool", "Error: reward 0", hidden=True)
    changed = Message("assistant", "I am sorry, task failed", model_view="Done")
    assert read_signs([Message("user", "Go"), changed, hidden]) == []
