"""The language of a text."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

LEAST = 0.5
"""Least probability of a language; below it the language is unknown."""
CHARS = 1_000
"""Characters that are looked at."""
_CODE_BLOCK = re.compile(r"```.*?(?:```|$)", re.DOTALL)
_ONE_NAME = {"yue": "zh"}
"""Written Chinese has one code: short texts of it are taken for Cantonese."""


def language(text: str) -> str | None:
    """The code of the language of a text (ISO 639), such as `en`; None where it is not clear, as in a very short text.

    The model of py3langid (Lui and Baldwin 2012, "langid.py") tells 139 languages by runs of bytes.
    """
    text = _CODE_BLOCK.sub(" ", text)[:CHARS].strip()
    if not text:
        return None
    code, probability = _model().classify(text)
    return _ONE_NAME.get(code, code) if probability >= LEAST and code != "zxx" else None


@cache
def _model() -> Any:
    """The model, which comes with the library: half a second to load."""
    from pathlib import Path

    from py3langid import langid

    path = Path(langid.__file__).parent / langid.MODEL_FILE
    return langid.LanguageIdentifier.from_modelpath(path, norm_probs=True)
