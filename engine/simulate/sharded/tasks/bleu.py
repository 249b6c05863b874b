"""BLEU of one text against references, by sacrebleu with its defaults. Only this module imports sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from engine.base.errors import PackageMissing


def require_bleu() -> None:
    """Checks before a run that BLEU can be computed.

    Raises:
        UsageError: sacrebleu is not installed.
    """
    if find_spec("sacrebleu") is None:
        raise PackageMissing(
            "Translations and descriptions of tables are scored with sacrebleu, which is not installed.",
            "Install it with `pip install 'conversation-workbench[simulate]'`, or leave these tasks out.",
        )


def bleu(text: str, references: Sequence[str]) -> float:
    """Returns the corpus BLEU of one segment against one or more references, 0 to 1.

    A text equal to its reference scores exactly 1 if it has at least four tokens, which BLEU needs.
    """
    import sacrebleu

    score = sacrebleu.corpus_bleu([text.strip()], [[one.strip()] for one in references]).score
    # Rounded, because the geometric mean of four precisions of 1 differs from 1 by a rounding error.
    return round(min(max(score / 100, 0.0), 1.0), 12)
