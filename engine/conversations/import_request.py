"""What a person asks of an import: the flags of `workbench import`, the Python API and a resumed run read it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.base.request_options import Option, declared, switch


def _read_gibibytes(text: str) -> int:
    """Returns a number of GiB as bytes, at least one.

    Raises:
        ValueError: It is no number above 0.
    """
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(text)
    return max(1, round(value * (1 << 30)))


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """How files and folders are imported.

    Attributes:
        format: Name of a format; None detects it for each file.
        replace: Conversations that changed take the place of the stored ones; otherwise both are kept.
        most_unpacked: Number of bytes to which any file may unpack; None for the usual limit.
    """

    format: str | None = declared(None, Option("format of the input", default="detected"))
    replace: bool = switch(
        "a conversation that changed replaces the stored one of its id, whose text is kept as an earlier one"
        " (default: keep both)"
    )
    most_unpacked: int | None = declared(
        None,
        Option(
            "GiB to which a file may unpack, whatever its size; memory and processor time for it grow too",
            default=".25, and 1,000 times its size",
            metavar="GIB",
            convert=_read_gibibytes,
            must="above 0",
        ),
    )


DEFAULT_IMPORT = ImportRequest()
"""An import of which nothing is said: formats are detected, and changed conversations are kept beside the old ones."""
