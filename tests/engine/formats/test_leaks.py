"""What gives a conversation's ending away is listed and hidden from models; ordinary text is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from engine.base.conversation import Conversation, Message, ToolCall, render_log
from engine.formats.leaks import STOP_TOKENS, guard
from engine.formats.records import Leak

OPENING = Message("user", "How many files are there?")


def guarded(*messages: Message, **fields: Any) -> tuple[Conversation, tuple[Leak, ...]]:
    return guard(Conversation("a", (OPENING, *messages)), fields)


def seen_last(*messages: Message) -> str:
    """What a model reads of the last message: its text, or nothing when it is hidden."""
    conversation, _ = guarded(*messages)
    last = conversation.messages[-1]
    return "(hidden)" if last.hidden else last.seen


@pytest.mark.parametrize("token", STOP_TOKENS)
def test_stop_token_is_cut(token: str) -> None:
    """A stop token is hidden from the model wherever it occurs; the content keeps it and the leak names it."""
    conversation, leaks = guarded(
        Message("assistant", f"say {token} to end"), Message("user", f"Thanks! {token}\n")
    )
    assert [message.seen for message in conversation.messages[1:]] == ["say  to end", "Thanks!"]
    assert conversation.messages[2].content == f"Thanks! {token}\n"
    assert leaks == (Leak(1, "stop-token", token), Leak(2, "stop-token", token))


@pytest.mark.parametrize(
    "mark", ["<|im_end|>", " </s>", "\n[DONE]", " TERMINATE.", "<|eot_id|>\n<|endoftext|>\n"]
)
def test_marks_of_the_end_are_cut_from_every_message(mark: str) -> None:
    """What ends a text for a model or a program is hidden at the end of all messages, and stays within a sentence."""
    conversation, leaks = guarded(
        Message("user", f"What does {mark.strip()} mean here?"),
        Message("assistant", f"It ends a text.{mark}"),
        Message("user", mark),
    )
    asks, answer, last = conversation.messages[1:]
    assert asks.model_view is None
    assert answer.seen == "It ends a text."
    assert last.hidden
    assert [leak.message for leak in leaks] == [2, 3]


def test_message_that_is_only_a_stop_token_is_hidden() -> None:
    """Nothing of such a message reaches the log, not even its header."""
    conversation, _ = guarded(Message("assistant", "Done."), Message("user", "###STOP###"))
    assert conversation.messages[2].hidden
    assert [piece.message for piece in render_log(conversation.messages)] == [0, 1]


def test_stop_token_beside_tool_calls() -> None:
    """Where a token occurs in a step with calls, or in their arguments, the calls stay without it."""
    calls = (ToolCall("note", '{"text": "bye ###STOP###"}'),)
    assert seen_last(Message("assistant", "ok ###STOP###", tool_calls=calls)) == (
        'ok \nTOOL CALLS: [{"name": "note", "args": {"text": "bye "}}]'
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Your score (min 0.0, max 1.0): 0.7", "(hidden)"),
        ("Thank you for shopping!\nYour code: X\nYour score (min 0.0, max 1.0)\n0.66", "(hidden)"),
        ("Reward: 1.0", "(hidden)"),
        ("Observation: Reward: 0.34", "(hidden)"),
        ("Observation: Episode finished, reward = True", "(hidden)"),
        ("The door is open.\nEpisode finished.", "The door is open."),
        ("3 rows\nsuccess: false", "3 rows"),
        ("Task completed = True", "(hidden)"),
        ("ls: 3 files\nReward: 1.0, done: True", "ls: 3 files"),
        ("The end.\nYour final score is 100.", "The end."),
        ("Total score = 3/5", "(hidden)"),
        ("2 files\nExit status: submitted (exit_cost)", "2 files"),
        ('{"reward": 0.5, "done": true}', "(hidden)"),
        ('{"won": true, "correct": true}', "(hidden)"),
    ],
)
@pytest.mark.parametrize("role", ["tool", "user"])
def test_closing_score_is_cut(text: str, left: str, role: Any) -> None:
    """A score stated by the environment at the end is kept from the model."""
    assert seen_last(Message("assistant", "ls"), Message(role, text)) == left
    _, leaks = guarded(Message("assistant", "ls"), Message(role, text))
    assert [leak.rule for leak in leaks] == ["score-observation"]


@pytest.mark.parametrize(
    "text",
    [
        "My score is too low for a ride.",
        "What is the final score from Don's 3 dart throws?",
        "name: Apollo\nscore: 8.5",
        "Reward: 1.0' at line 2, near the end of the query",
        "Reward points: 300",
        '{"success": false, "error": "no such user"}',
        "The episode finished too soon for my taste.",
        "make: error\nexit status: 2",
        '{"success": true}',
        "Dear Sir,\nstatus: delivered\nYours, the shop",
    ],
)
def test_ordinary_talk_of_scores_stays(text: str) -> None:
    """Scores that a conversation is about are left alone."""
    assert seen_last(Message("assistant", "ok"), Message("user", text)) == text


def test_scores_in_the_middle_and_of_the_assistant_stay() -> None:
    """A score in the middle of a conversation, or in an assistant message, is left alone."""
    middle = Message("tool", "Reward: 0.0")
    rest = [Message("assistant", "again"), Message("tool", "ok"), Message("assistant", "so")]
    assert guarded(Message("assistant", "ls"), middle, *rest)[1] == ()
    assert guarded(Message("assistant", "Your final score is 3/3!"))[1] == ()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("finish", "(hidden)"),
        ("submit", "(hidden)"),
        ("Finish[42]", "42"),
        ("Finish[1e5]", "1e5"),
        ("Action 3: Answer\nParis", "Paris"),
        ("So.\n```bash\necho MINI_SWE_AGENT_FINAL_OUTPUT\n```", "So."),
        ("Thought: I know it.\nAction 3: Finish[Paris]", "Thought: I know it.\nParis"),
        ("Thought: I can submit.\nAction: submit", "Thought: I can submit."),
        ("Thought: EXCEEDED MAX TURNS: submit\nAction: submit", "(hidden)"),
        (
            'Thought: so.\n\nAction: finish with Action Input: {"answer": 33.4}',
            "Thought: so.\n\n33.4",
        ),
        (
            'Action: Finish\nAction Input: {"return_type": "give_answer", "final_answer": "Yes"}',
            "Yes",
        ),
        ('Action: Finish\nAction Input: {"return_type": "give_up"}', "(hidden)"),
        ("It is 59.6.\nAction: Answer\nFinal Answer: [59.6]", "It is 59.6.\n[59.6]"),
        ("Think: counted.\n\nAct: answer(220)", "Think: counted.\n\n220"),
        ("Think: all set.\n\nAct: finish", "Think: all set."),
        ("I submit the patch.\n```\nsubmit\n```", "I submit the patch."),
        (
            "So.\n```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff\n```",
            "So.",
        ),
        ("All done here.\n<function=finish>\n</function>", "All done here."),
        ("<function=finish><parameter=message>Three files.</parameter></function>", "Three files."),
        (
            "I ran it.\n<attempt_completion>\n<result>\nIt works.\n</result>\n</attempt_completion>",
            "I ran it.\nIt works.",
        ),
    ],
)
def test_finish_marker_is_cut_and_the_answer_stays(text: str, left: str) -> None:
    """The closing step of an agent loses the word that ends the episode and keeps what it says to the user."""
    assert seen_last(Message("assistant", text)) == left
    conversation, leaks = guarded(Message("assistant", text))
    assert conversation.messages[1].content == text
    assert {leak.rule for leak in leaks} == {"finish-marker"}


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        "done",
        "Please finish the form and submit it.",
        "To exit, press q.\nThen you are done.",
        "click[Buy Now]",
        "```bash\nfor f in *; do\n  submit $f\ndone\n```",
        "The final answer is yours to give.",
    ],
)
def test_ordinary_closing_words_stay(text: str) -> None:
    """Words such as done and finish in running text or code are not markers."""
    assert guarded(Message("assistant", text))[1] == ()


def test_finish_marker_before_a_last_observation() -> None:
    """An agent's `submit` counts as closing although the environment still echoes something."""
    conversation, leaks = guarded(
        Message("assistant", "Thought: enough.\nAction: submit"), Message("tool", "3")
    )
    assert conversation.messages[1].seen == "Thought: enough."
    assert leaks == (Leak(1, "finish-marker", "Action: submit"),)


def test_finishing_call_without_text_is_hidden_with_its_answer() -> None:
    """A call that only ends the work is hidden together with the tool's reply to it."""
    conversation, leaks = guarded(
        Message("assistant", "", tool_calls=(ToolCall("submit", "{}"),)), Message("tool", "bye")
    )
    assert [message.hidden for message in conversation.messages] == [False, True, True]
    assert [leak.rule for leak in leaks] == ["finish-marker"] * 2


def test_finishing_call_leaves_text_answer_and_other_calls() -> None:
    """Text, answer and other calls of a finishing step stay in the model's view."""
    finish = ToolCall("complete_task", '{"answer": "3 files", "status": "success"}')
    other = ToolCall("note", "{}")
    message = Message("assistant", "Counted.", tool_calls=(other, finish))
    assert seen_last(message) == 'Counted.\n3 files\nTOOL CALLS: [{"name": "note", "args": {}}]'
    alone = Message("assistant", "Counted.", tool_calls=(finish,))
    conversation, _ = guarded(alone)
    assert render_log(conversation.messages)[-1].kind == "chat"
    assert conversation.messages[1].tool_calls == (finish,)


def test_outcome_fields_become_truth() -> None:
    """Fields that state an outcome go to the truth and are listed, also within metadata, where they count less; other
    fields within metadata stand beside it, but for one whose name is there."""
    conversation, leaks = guarded(
        Message("assistant", "3"),
        Reward=1.0,
        model="m",
        metadata={"termination-reason": "user_stop", "team": "a", "Reward": 0.0, "model": "n"},
        rating=None,
    )
    assert conversation.truth == {"Reward": 1.0, "termination-reason": "user_stop", "rating": None}
    assert conversation.meta == {"model": "m", "team": "a", "metadata": {"model": "n"}}
    assert leaks == (
        Leak(None, "truth-field", "Reward = 1.0"),
        Leak(None, "truth-field", "termination-reason = user_stop"),
        Leak(None, "truth-field", "Reward = 0.0"),
    )


def test_truth_of_the_record_wins_over_fields() -> None:
    """A field does not overwrite a value of the same name in the record's own truth."""
    conversation = Conversation("a", (OPENING,), truth={"reward": 1.0})
    assert guard(conversation, {"reward": 0.0, "score": 2})[0].truth == {"reward": 1.0, "score": 2}


def test_clean_conversation_is_handed_back_as_it_is() -> None:
    """A conversation without leaks is returned as the same object."""
    conversation = Conversation("a", (OPENING, Message("assistant", "### Heading\n3")))
    assert guard(conversation)[0] is conversation


def test_submission_of_an_agent_is_hidden() -> None:
    """What a program prints between its marks of a submission, and a command that only submits, end an episode."""
    tool = Message("tool", "ok\n<<SUBMISSION||\ndiff --git a b\n||SUBMISSION>>\nReward: 1")
    assert seen_last(Message("assistant", "ls"), tool) == "ok"
    call = ToolCall("bash", '{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}')
    assert seen_last(Message("assistant", "So.", tool_calls=(call,))) == "So."


@pytest.mark.parametrize(
    ("truth", "text", "left"),
    [
        ({"reward": 1.0}, "All is sent.\n**Reward:** 1", "All is sent."),
        ({"info": {"exit_status": "Submitted"}}, "Submitted", "(hidden)"),
        ({"resolved": False}, "Ended.\nresolved = False", "Ended."),
        ({"completion_level": "Complete"}, "completion level: complete", "(hidden)"),
    ],
)
def test_truth_is_not_readable_at_the_end(truth: Any, text: str, left: str) -> None:
    """What the truth says of the outcome is hidden where one of the last two messages says it, whoever says it."""
    conversation = Conversation("a", (OPENING, Message("assistant", text)), truth=truth)
    guarded_, leaks = guard(conversation)
    last = guarded_.messages[-1]
    assert ("(hidden)" if last.hidden else last.seen) == left
    assert [leak.rule for leak in leaks] == ["truth-value"]


@pytest.mark.parametrize(
    ("truth", "text"),
    [
        ({"reward": 1.0}, "Your reward points: 1"),
        ({"reward": 1.0}, "Reward: 300 points"),
        ({"answer": "Paris", "goal": "travel"}, "Paris"),
        ({"status": "open"}, "open"),
        ({"success": True}, "The booking was a success: true love!"),
    ],
)
def test_words_that_the_truth_has_too_stay(truth: Any, text: str) -> None:
    """An answer that is right, and a word that happens to be in the truth, are no outcome."""
    conversation = Conversation("a", (OPENING, Message("assistant", text)), truth=truth)
    assert guard(conversation) == (conversation, ())
