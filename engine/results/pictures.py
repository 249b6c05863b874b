"""Pictures of tables, drawn by matplotlib (the `plot` extra)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.base.errors import PackageMissing, UsageError
from engine.conversations.service.line_files import written_beside

ENDINGS = (".svg", ".png")
_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    # Text stays text, and the same table gives the same bytes.
    "svg.fonttype": "none",
    "svg.hashsalt": "workbench",
}


def save_picture(path: Path, draw: Callable[[Any], Any]) -> None:
    """Draws a picture into a file; an existing file is replaced.

    Args:
        path: Ends with `.svg` or `.png`.
        draw: Gets the module `matplotlib.pyplot` and returns the figure.

    Raises:
        UsageError: The path has another ending, or matplotlib is not installed.
        ProjectError: The file cannot be written.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(
            f"{path.name} is no picture.", f"End its name with {' or '.join(ENDINGS)}."
        )
    pyplot = _pyplot()
    with pyplot.rc_context(_STYLE):
        picture = draw(pyplot)
        # Without the date, so that drawing anew changes nothing.
        about = {"Date": None} if path.suffix.lower() == ".svg" else {}
        try:
            with written_beside(path) as part:
                picture.savefig(part, dpi=150, metadata=about)
        finally:
            pyplot.close(picture)


def _pyplot() -> Any:
    try:
        import matplotlib
        from matplotlib import pyplot
    except ImportError as error:
        raise PackageMissing(
            "Pictures need matplotlib, which is not installed.",
            "`pip install 'conversation-workbench[plot]'` adds it; the table needs nothing.",
        ) from error
    matplotlib.use("agg")
    return pyplot
