"""A baseline without clusters: a model labels one conversation after another, with an earlier label or a new one.

It needs neither vectors nor clusters. Its result depends on the order of the conversations, because it may reuse the
labels of earlier ones only. It is the baseline of Soroka et al., "Unsupervised Evaluation of Multi-Turn
Objective-Driven Interactions", appendix C.1, and is there for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.goals.questions.asker import Asker
from engine.goals.questions.questions import LABEL_CHARS, LABEL_WORDS, clipped
from engine.model.prompt_files import Prompt

MOST_LABELS = 60
"""Most labels that are offered for reuse, the most recently used ones, so that the question fits the context."""
UNNAMED = "no label"


def label_in_order(
    asker: Asker, prompt: Prompt, texts: Sequence[str], given: Sequence[str] = ()
) -> Iterator[str]:
    """Labels texts one after another and yields each label as soon as the model has written it.

    A label that differs from an earlier one only in case, spacing or punctuation counts as that one. A reply without a
    letter or digit gives `UNNAMED`.

    Args:
        prompt: The prompt `relabel`, or one of the same form.
        given: Labels of the first texts from an earlier run, to resume it.
    """
    known: dict[str, str] = {}

    def used(label: str) -> str:
        """Marks a label as the most recently used; returns it as it was first written."""
        key = "".join(filter(str.isalnum, label.casefold()))
        known[key] = known.pop(key, label)
        return known[key]

    for label in given:
        if label != UNNAMED:
            used(label)
    for text in texts[len(given) :]:
        [answer] = asker.generate(prompt, [question_body(list(known.values()), text)])
        label = " ".join(answer.text.split()[:LABEL_WORDS]).strip(" \"'.,;:-*")
        yield used(label) if any(map(str.isalnum, label)) else UNNAMED


def question_body(labels: Sequence[str], text: str) -> str:
    """What the model reads for one conversation."""
    log = f"[USER INPUT]\n{clipped(text, LABEL_CHARS * 2)}"
    if not labels:
        return log
    return "\n".join(["[CATEGORIES]", *(f"- {label}" for label in labels[-MOST_LABELS:]), "", log])
