"""Decodes the test cases of an instruction: JSON, or base64 of zlib of a pickle of JSON. Never runs code."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from collections.abc import Mapping
from typing import Any

_UNPACKED_BYTES = 256 * 2**20


class BadTests(ValueError):
    """The test cases cannot be read; the message gives the reason."""


class _TextOnly(pickle.Unpickler):
    """Reads texts, numbers and containers. Raises BadTests for a pickle that names a class or function, which may run
    code."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise BadTests(f"the pickle names {module_name}.{global_name}, which may run code")

    def persistent_load(self, pid: Any) -> Any:
        raise BadTests("the pickle refers to something outside it")


def unpacked(value: Any) -> list[Mapping[str, Any]]:
    """Returns the test cases, each with `input` and `output`.

    Raises:
        BadTests: The value is not a list of test cases.
    """
    if isinstance(value, str):
        value = _from_text(value)
    if not isinstance(value, list) or not all(
        isinstance(one, dict) and "input" in one and "output" in one for one in value
    ):
        raise BadTests("test cases must be a list of objects with `input` and `output`")
    return value


def _from_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        packed = zlib.decompressobj()
        data = packed.decompress(base64.b64decode(text, validate=True), _UNPACKED_BYTES)
        if packed.unconsumed_tail:
            raise BadTests(f"they are longer than {_UNPACKED_BYTES // 2**20} MiB")
        inner = _TextOnly(io.BytesIO(data)).load()
        return json.loads(inner) if isinstance(inner, str | bytes) else inner
    except BadTests:
        raise
    except Exception as error:
        raise BadTests(f"they are neither JSON nor packed JSON: {error}") from error
