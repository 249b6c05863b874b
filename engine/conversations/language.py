"""Recognizes the language of a text."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

MIN_LANGUAGE_PROBABILITY = 0.5
"""Least probability of a language; below it the language of a text is unknown."""

LANGUAGE_SAMPLE_CHARACTERS = 1_000
"""Number of characters at the beginning of a text without its code blocks by which its language is recognized."""

_CODE_BLOCK = re.compile(r"```.*?(?:```|$)", re.DOTALL)
"""Matches a code block of Markdown, also one that does not end."""

_SAME_LANGUAGE = {"yue": "zh"}
"""Languages that are given another code. Short texts in Chinese are taken for Cantonese, so both are called `zh`."""


def detect_language(text: str) -> str | None:
    """Returns the code of the language of a text (ISO 639), such as `en`; None where it is not clear.

    The model of py3langid (Lui and Baldwin 2012, "langid.py") tells 139 languages apart by runs of bytes.
    Code blocks of Markdown are left out.
    """
    text = _CODE_BLOCK.sub(" ", text)[:LANGUAGE_SAMPLE_CHARACTERS].strip()
    if not text:
        return None
    code, probability = _model().classify(text)
    is_no_language = code == "zxx"
    if probability < MIN_LANGUAGE_PROBABILITY or is_no_language:
        return None
    return _SAME_LANGUAGE.get(code) or str(code)


@cache
def _model() -> Any:
    """Returns the model that comes with the library; loading it takes half a second, once."""
    from pathlib import Path

    from py3langid import langid

    path = Path(langid.__file__).parent / langid.MODEL_FILE
    return langid.LanguageIdentifier.from_modelpath(path, norm_probs=True)
