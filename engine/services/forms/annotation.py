"""Conversations as tasks for a person in Argilla or Label Studio, who says whether each is complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from engine.conversation import Message, with_calls
from engine.records.triage import Verdict
from engine.services.forms.exported import ConversationForm, Exported
from engine.text import as_json

VERDICT, NOTE = "verdict", "note"
"""Names of the two questions."""

_ASKED = "Did the user get what they wanted?"
_GUIDE = (
    "Complete: nothing remains to be done for the user. Incomplete: something does. Judge the conversation as it ends, "
    "not how it was led."
)

LABELING_CONFIG = f"""<View>
  <Header value="{_ASKED}"/>
  <Text name="guide" value="{_GUIDE}"/>
  <Paragraphs name="dialogue" value="$dialogue" layout="dialogue" nameKey="author" textKey="text"/>
  <Choices name="{VERDICT}" toName="dialogue" choice="single" required="true" showInline="true">
    {"".join(f'<Choice value="{one}"/>' for one in Verdict)}
  </Choices>
  <TextArea name="{NOTE}" toName="dialogue" rows="2" maxSubmissions="1" placeholder="Note"/>
</View>
"""
"""The labeling interface of a project of Label Studio."""

ARGILLA_SETTINGS: dict[str, Any] = {
    "guidelines": _GUIDE,
    "questions": [
        {
            "name": VERDICT,
            "title": _ASKED,
            "description": None,
            "required": True,
            "settings": {
                "type": "label_selection",
                "options": [
                    {"value": one.value, "text": one.value, "description": None} for one in Verdict
                ],
                "visible_options": None,
            },
        },
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
"""The settings of a dataset of Argilla, as `rg.Settings.from_json` reads them."""


def argilla(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a record for each conversation, as `dataset.records.from_json` reads it; the id is the key of the text."""
    for item in items:
        for message in item.conversation.messages:
            left_behind["names"] += bool(message.name)
        yield {
            "id": item.key,
            "fields": {
                "chat": [
                    {"role": message.role, "content": _said(message, left_behind)}
                    for message in item.conversation.messages
                ]
            },
            "metadata": _names(item, left_behind),
        }


def label_studio(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a task for each conversation, for a project with `LABELING_CONFIG`."""
    for item in items:
        dialogue = [
            {"author": _speaker(message), "text": _said(message, left_behind)}
            for message in item.conversation.messages
        ]
        yield {"data": {"key": item.key, **_names(item, left_behind), "dialogue": dialogue}}


def settings_file(form: ConversationForm, path: Path) -> tuple[Path, str] | None:
    """Where the settings of the annotation go beside an exported file, and their text; None for forms without."""
    if form == "argilla":
        return path.with_suffix(".settings.json"), as_json(ARGILLA_SETTINGS, indent=2) + "\n"
    if form == "label-studio":
        return path.with_suffix(".xml"), LABELING_CONFIG
    return None


def _names(item: Exported, left_behind: Counter[str]) -> dict[str, str]:
    left_behind["metadata"] += bool(item.conversation.meta)
    return {"conversation": item.conversation.external_id, "source": item.source}


def _speaker(message: Message) -> str:
    return f"{message.role} ({message.name})" if message.name else message.role


def _said(message: Message, left_behind: Counter[str]) -> str:
    """What a person reads: the text, then the calls."""
    left_behind["reasoning"] += bool(message.reasoning)
    left_behind["times and other facts"] += bool(message.facts)
    return (
        with_calls(message.content, message.tool_calls) if message.tool_calls else message.content
    )
