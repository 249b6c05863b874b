"""Conversations as tasks for a person in Label Studio, who answers questions about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from engine.base.conversation import SUCCEEDED, Message, with_calls
from engine.opener.conversation_forms import ConversationForm, Exported
from engine.questions.question import NOTE, Question, read_built_in


def _guide(questions: Sequence[Question]) -> str:
    """Returns what the annotator reads first: each question with its guidance and that of its answers."""
    parts = []
    for question in questions:
        answers = (f"{value}: {text}" for value, text in question.labels.items())
        parts.append("\n".join(filter(None, (question.text, question.guidance, *answers))))
    return "\n\n".join(parts)


def labeling_config(questions: Sequence[Question]) -> str:
    """Returns the labeling interface of a project of Label Studio that asks these questions."""
    controls = []
    for question in questions:
        name = f'name="{question.name}" toName="dialogue"'
        if question.answers:
            choice = "multiple" if question.kind == "several" else "single"
            choices = "".join(f"<Choice value={quoteattr(answer)}/>" for answer in question.answers)
            control = f'<Choices {name} choice="{choice}" showInline="true">{choices}</Choices>'
        else:
            control = f'<TextArea {name} rows="1" maxSubmissions="1"/>'
        controls.append(f"  <Header value={quoteattr(question.text)}/>\n  {control}\n")
    return f"""<View>
  <Text name="guide" value={quoteattr(_guide(questions))}/>
  <Paragraphs name="dialogue" value="$dialogue" layout="dialogue" nameKey="author" textKey="text"/>
{"".join(controls)}  <TextArea name="{NOTE}" toName="dialogue" rows="2" maxSubmissions="1" placeholder="Note"/>
</View>
"""


def label_studio(items: Iterable[Exported], left_behind: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields a task for each conversation, for a project with `labeling_config`."""
    for item in items:
        dialogue = [
            {"author": _speaker(message), "text": _text_to_read(message, left_behind)}
            for message in item.conversation.messages
        ]
        yield {"data": {"key": item.key, **_names(item, left_behind), "dialogue": dialogue}}


def settings_file(
    form: ConversationForm, path: Path, questions: Sequence[Question] = ()
) -> tuple[Path, str] | None:
    """Returns the file beside an exported one for the settings of the annotation, and their text; None without.

    Args:
        questions: What is asked; empty asks for verdicts.
    """
    if form != "label-studio":
        return None
    return path.with_suffix(".xml"), labeling_config(questions or (read_built_in()[SUCCEEDED],))


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
