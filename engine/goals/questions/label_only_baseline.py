"""A baseline without clusters: a model labels one conversation after the other, with a label used before or a new one.

It needs no vectors and no clusters, and depends on the order in which the conversations come: the labels that it may
reuse are those of the conversations before. Kept for comparison: it is the baseline of Soroka et al., "Unsupervised
Evaluation of Multi-Turn Objective-Driven Interactions", appendix C.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.goals.questions.asker import Asker
from engine.goals.questions.questions import LABEL_CHARS, LABEL_WORDS, clipped
from engine.model.prompt_files import Prompt

MOST_LABELS = 60
"""Labels that are offered for reuse, those used last, so that the question keeps within the context."""
UNNAMED = "no label"


def label_in_order(
    asker: Asker, prompt: Prompt, texts: Sequence[str], given: Sequence[str] = ()
) -> Iterator[str]:
    """Labels texts one after the other and yields each label as soon as the model wrote it.

    A label that differs from an earlier one in case, spacing or punctuation only is that earlier one. Empty replies
    give `UNNAMED`.

    Args:
        prompt: `relabel`, or one like it.
        given: Labels of the first texts, where an earlier run gave them; it goes on after these.
    """
    known: dict[str, str] = {}

    def used(label: str) -> str:
        """The label as it was first written, now the last used."""
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
