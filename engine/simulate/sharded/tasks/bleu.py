"""BLEU of one text against references, by sacrebleu with its defaults. The only module that imports it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from engine.errors import UsageError


def require_bleu() -> None:
    """Says before a run what would stop it.

    Raises:
        UsageError: sacrebleu is not installed.
    """
    if find_spec("sacrebleu") is None:
        raise UsageError(
            "Translations and descriptions of tables are scored with sacrebleu, which is not installed.",
            "Install it with `pip install 'conversation-workbench[simulate]'`, or leave these tasks out.",
        )


def bleu(text: str, references: Sequence[str]) -> float:
    """Corpus BLEU of one segment against one or more references, 0 to 1.

    A text equal to its reference scores exactly 1, if it has the four tokens that BLEU needs.
    """
    import sacrebleu

    score = sacrebleu.corpus_bleu([text.strip()], [[one.strip()] for one in references]).score
    # The geometric mean of four precisions of 1 misses 1 by a rounding error.
    return round(min(max(score / 100, 0.0), 1.0), 12)
