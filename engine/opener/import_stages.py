"""The stages of an import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from engine.conversations.import_request import DEFAULT_IMPORT, ImportRequest
from engine.project.project import Project

if TYPE_CHECKING:
    from engine.conversations.stages import CheckStage, ImportStage
    from engine.signs.stages import SignStage


def import_stages(
    project: Project,
    paths: Sequence[str],
    request: ImportRequest = DEFAULT_IMPORT,
    *,
    stdin: BinaryIO | None = None,
) -> tuple[ImportStage, SignStage, CheckStage]:
    """Returns the stages of an import: what reads files, what looks for signs of trouble, and what checks what came.

    Args:
        paths: Files and folders; `-` is `stdin`.
        request: How they are imported.
    """
    # Imported here: they bring readers and numpy, which what only shows an import does not wait for.
    from engine.conversations.stages import CheckStage, ImportStage
    from engine.signs.stages import SignStage

    reading = ImportStage(
        project,
        paths,
        format=request.format,
        stdin=stdin,
        all_branches=request.all_branches,
        replace=request.replace,
        most_unpacked=request.most_unpacked,
    )
    return reading, SignStage(project), CheckStage(project)
