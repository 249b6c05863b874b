"""Conversations as tasks for a person in Argilla or Label Studio, who says whether the user got what they wanted, or
rates each as in RecLLMSim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from engine.base.conversation import SUCCEEDED, Message, with_calls
from engine.base.text import as_json
from engine.model.prompt_files import prompt_texts
from engine.opener.conversation_forms import ConversationForm, Exported
from engine.questions.question import NOTE, built_in
from engine.questions.question_names import ALLOWED_RATINGS, RATING_BY_QUESTION

_RATING_TITLE = "How good is the conversation?"
"""Title of a task that asks for ratings."""


def _guide(*, ratings: bool) -> str:
    """Returns what the annotator reads first; of ratings the rubric that a judge has."""
    if not ratings:
        question = built_in()[SUCCEEDED]
        answers = (f"{value.capitalize()}: {text}." for value, text in question.labels.items())
        return " ".join((*answers, question.guidance))
    rubric = prompt_texts("ratings")["rubric"].strip()
    return f"Rate the conversation; leave out what you cannot say.\n{rubric}"


def labeling_config(*, ratings: bool) -> str:
    """Returns the labeling interface of a project of Label Studio, for verdicts or for ratings."""
    if ratings:
        questions = "".join(
            f"""
  <Header value="{name}"/>
  <Choices name="{question}" toName="dialogue" choice="single" showInline="true">
    {"".join(f'<Choice value="{grade}"/>' for grade in ALLOWED_RATINGS[name])}
  </Choices>"""
            for question, name in RATING_BY_QUESTION.items()
        )
    else:
        questions = f"""
  <Choices name="{SUCCEEDED}" toName="dialogue" choice="single" required="true" showInline="true">
    {"".join(f'<Choice value="{verdict}"/>' for verdict in built_in()[SUCCEEDED].answers)}
  </Choices>"""
    return f"""<View>
  <Header value="{_RATING_TITLE if ratings else built_in()[SUCCEEDED].text}"/>
  <Text name="guide" value={quoteattr(_guide(ratings=ratings))}/>
  <Paragraphs name="dialogue" value="$dialogue" layout="dialogue" nameKey="author" textKey="text"/>{questions}
  <TextArea name="{NOTE}" toName="dialogue" rows="2" maxSubmissions="1" placeholder="Note"/>
</View>
"""


def argilla_settings(*, ratings: bool) -> dict[str, Any]:
    """Returns the settings of a dataset of Argilla for verdicts or ratings, as `rg.Settings.from_json` reads them."""
    questions = (
        [
            _label_question(
                question, name, [str(grade) for grade in ALLOWED_RATINGS[name]], required=False
            )
            for question, name in RATING_BY_QUESTION.items()
        ]
        if ratings
        else [
            _label_question(
                SUCCEEDED,
                built_in()[SUCCEEDED].text,
                list(built_in()[SUCCEEDED].answers),
                required=True,
            )
        ]
    )
    return {
        "guidelines": _guide(ratings=ratings),
        "questions": [
            *questions,
            {
                "name": NOTE,
                "title": "Note",
                "description": None,
                "required": False,
                "settings": {"type": "text", "use_markdown": False},
            },
        ],
        "fields": [
            {
                "name": "chat",
                "title": "Conversation",
                "description": None,
                "required": True,
                "settings": {"type": "chat", "use_markdown": False},
            }
        ],
        "vectors": [],
        "metadata": [],
        "allow_extra_metadata": True,
        "distribution": {"strategy": "overlap", "min_submitted": 1},
        "mapping": None,
    }


def _label_question(name: str, title: str, values: list[str], *, required: bool) -> dict[str, Any]:
    """Returns a question of Argilla with one answer out of some."""
    return {
        "name": name,
        "title": title,
        "description": None,
        "required": required,
        "settings": {
            "type": "label_selection",
            "options": [{"value": value, "text": value, "description": None} for value in values],
            "visible_options": None,
        },
    }


def argilla(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a record for each conversation, as `dataset.records.from_json` reads it; the id is the key of the text."""
    for item in items:
        for message in item.conversation.messages:
            left_behind["names"] += bool(message.name)
        yield {
            "id": item.key,
            "fields": {
                "chat": [
                    {"role": message.role, "content": _text_to_read(message, left_behind)}
                    for message in item.conversation.messages
                ]
            },
            "metadata": _names(item, left_behind),
        }


def label_studio(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a task for each conversation, for a project with `labeling_config`."""
    for item in items:
        dialogue = [
            {"author": _speaker(message), "text": _text_to_read(message, left_behind)}
            for message in item.conversation.messages
        ]
        yield {"data": {"key": item.key, **_names(item, left_behind), "dialogue": dialogue}}


def settings_file(form: ConversationForm, path: Path) -> tuple[Path, str] | None:
    """Returns the file beside an exported one for the settings of the annotation, and their text; None without."""
    ratings = form.endswith("-ratings")
    if form.startswith("argilla"):
        settings = argilla_settings(ratings=ratings)
        return path.with_suffix(".settings.json"), as_json(settings, indent=2) + "\n"
    if form.startswith("label-studio"):
        return path.with_suffix(".xml"), labeling_config(ratings=ratings)
    return None


def _names(item: Exported, left_behind: Counter[str]) -> dict[str, str]:
    """Returns id and source of a conversation, by which a person finds it."""
    left_behind["metadata"] += bool(item.conversation.meta)
    return {"conversation": item.conversation.external_id, "source": item.source}


def _speaker(message: Message) -> str:
    """Returns role and name of a message, as the annotator sees them."""
    return f"{message.role} ({message.name})" if message.name else message.role


def _text_to_read(message: Message, left_behind: Counter[str]) -> str:
    """Returns what a person reads of a message: the text, then the calls."""
    left_behind["reasoning"] += bool(message.reasoning)
    left_behind["times and other facts"] += bool(message.facts)
    return (
        with_calls(message.content, message.tool_calls) if message.tool_calls else message.content
    )
