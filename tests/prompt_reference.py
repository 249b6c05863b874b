"""The reference of prompts, from their files; `python -m tests.prompt_reference` writes it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from engine.model.prompt_files import (
    all_prompt_names,
    places,
    prompt_kinds,
    prompt_names,
    prompt_text,
    prompt_texts,
    shipped_prompt,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "prompts.md"

KINDS = {
    "forms": "Filling a form in a conversation, for `workbench simulate forms`: the modules of Hakimov et al., their"
    " baseline, and the user ([simulation](../simulation.md#forms)).",
    "recsim": "Users with profiles, for `workbench simulate recsim`"
    " ([RecLLMSim](../recllmsim.md)).",
    "sharded": "Sharded conversations, for `workbench simulate sharded`"
    " ([simulation](../simulation.md#sharded-conversations)). `TASK-system` is the system message of the assistant,"
    " `TASK-full` the whole instruction in one turn, `TASK-answer` what counts as an answer, in words for the model"
    " that classifies.",
}
"""What the prompts of each kind of simulation are for."""

PURPOSES = {
    "forms/answer-parser": "Decides what follows an answer: take the facts, or ask again.",
    "forms/answer-validator": "Checks the filled section against the facts.",
    "forms/baseline-action": "The baseline, one model for all: decides what follows an answer.",
    "forms/baseline-fill": "The baseline: fills the form.",
    "forms/baseline-follow-up": "The baseline: asks again.",
    "forms/baseline-question": "The baseline: asks the first question.",
    "forms/chunk-filler": "Decides what is done next with a section of the form.",
    "forms/dialogue-manager": "Decides what is done next with the form.",
    "forms/follow-up-question": "Asks for what an answer did not say.",
    "forms/form-filler": "Fills a section with the facts.",
    "forms/grouping-validator": "Checks the grouping of the questions.",
    "forms/information-extractor": "Takes facts out of an answer.",
    "forms/question-extractor": "Sums up a section in one sentence.",
    "forms/question-generator": "Asks for the empty fields of a section.",
    "forms/question-grouping": "Groups sections by their sentences.",
    "forms/repeated-question": "Asks once more, and says what was wrong with the answer.",
    "forms/user": "The user, who makes an answer up.",
    "forms/user-with-facts": "The user, who answers by given facts.",
    "recsim/assistant-new-travel-planning": "The system message of the assistant for this task.",
    "recsim/assistant-speechless": "What the assistant says where its model gave no words.",
    "recsim/closing": "Put behind each answer, so that the user can end the conversation.",
    "recsim/greeting": "The first message, by the assistant.",
    "recsim/user-opening": "The beginning of what the user says, so that the model speaks as the user.",
    "recsim/user-profile": "Who the user is, in the system message of the user.",
    "recsim/user-rules": "How the user talks, in the same message.",
    "recsim/user-situation": "What the user is there for, in the same message.",
    "recsim/user-speechless": "What the user says where the model gave no words.",
    "sharded/classify": "Sorts each reply of the assistant: an attempt at an answer, a question, a refusal, ...",
    "sharded/extract": "Takes the answer out of a reply that attempts one.",
    "sharded/recap": "The last turn of the condition `recap`: everything once more.",
    "sharded/snowball": "Each turn of the condition `snowball`: what was said before, then the new.",
    "sharded/user": "The user, who reveals one shard a turn.",
}
"""What single prompts of simulations are for, beside what `KINDS` says."""

_COMMENT = re.compile(r"(?:^#.*\n)+", re.MULTILINE)
_OF_EACH_TASK = re.compile(r"sharded/\w+-(?:system|full|answer)$")


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


def page() -> str:
    """All prompts as a page in Markdown."""
    parts = [
        "# Prompts",
        "All texts that a model is asked with. `workbench prompts PROJECT NAME` prints one as a project has it,"
        " `workbench prompts PROJECT NAME --set FILE` puts another in its place for this project, and"
        " `workbench prompts PROJECT NAME --reset` takes that back. What was made with another prompt stays; a new run"
        " makes a new set beside it, and every set says which prompts it was made with.",
        "This page is generated: `python -m tests.prompt_reference`.",
        "## The form of a prompt file",
        "What the model reads is `before`, the log or the lists, `question`, `reply`.",
        "| field | meaning |\n|---|---|\n"
        "| `chat` | all but `reply` stands in a user message of the model's own chat template |\n"
        "| `before`, `question` | the text before and after the log |\n"
        "| `reply` | the beginning of the answer, written for the model |\n"
        "| `end`, `continuation` | the two answers whose probabilities are compared; empty where none are |\n"
        "| `stop` | texts that end a generated answer |\n"
        "| `max_tokens` | the longest generated answer |",
        "The prompts of simulations are plain texts. A name in double brackets, such as `[[PROFILE]]`, is filled when"
        " the text is used; an edited text can leave out a place, but not name another one.",
        "## Scores, remaining tasks and goals",
    ]
    for name in prompt_names():
        parts += _section(name, _purpose(name), "toml", _COMMENT.sub("", prompt_text(name)))
    for kind in prompt_kinds():
        parts += [f"## {kind[:1].upper()}{kind[1:]}", KINDS[kind]]
        for short in sorted(prompt_texts(kind)):
            name = f"{kind}/{short}"
            text = shipped_prompt(name)
            filled = ", ".join(f"`{place}`" for place in sorted(places(text)))
            purpose = f"{_purpose(name)} Filled: {filled}." if filled else _purpose(name)
            parts += _section(name, purpose.strip(), "text", text)
    return "\n\n".join(parts) + "\n"


def unexplained() -> list[str]:
    """Prompts without a purpose, and purposes of prompts that are not there."""
    known = set(all_prompt_names())
    return [
        *(name for name in sorted(known) if not _purpose(name) and not _OF_EACH_TASK.match(name)),
        *(name for name in PURPOSES if name not in known),
    ]


def _purpose(name: str) -> str:
    if "/" in name:
        return PURPOSES.get(name, "")
    comment = _COMMENT.match(prompt_text(name))
    return " ".join(line.lstrip("# ") for line in comment[0].splitlines()) if comment else ""


def _section(name: str, purpose: str, language: str, text: str) -> list[str]:
    fence = "````" if "```" in text else "```"
    block = f"{fence}{language}\n{text.strip()}\n{fence}"
    return [f"### {name}", *([purpose] if purpose else []), block]


if __name__ == "__main__":
    sys.exit(main())
