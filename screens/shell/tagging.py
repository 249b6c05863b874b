"""The dialog for tags: a line of text, and below it the tags that are in use."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Input, Static

from engine.base.text import one_line
from engine.opener.open_project import OpenProject
from screens.shell.dialogs import TextDialog
from screens.widgets.background import background

MOST_TAGS = 12
"""Most tags that are listed."""

NO_TAGS = (
    "No tags yet. A tag is a word of yours for what you see, such as “too slow”: write one, and enter gives it."
    " Filters find it (tag:NAME), and after ten of it `workbench run tag` finds where else it may fit."
)


class TagDialog(TextDialog):
    """Asks for tags, and lists those in use; where there are none, says what tags are for."""

    def __init__(
        self,
        services: OpenProject,
        title: str,
        *,
        value: str = "",
        placeholder: str = "",
        adding: bool = False,
    ) -> None:
        super().__init__(title, value=value, placeholder=placeholder, adding=adding)
        self._services = services

    def on_mount(self) -> None:
        """Reads the tags; meanwhile one can write."""
        background(
            self, self._services.conversations.tags, self._show, self.show_error, group="tags"
        )

    def _show(self, tags: Sequence[tuple[str, int]]) -> None:
        text = Content.styled(tags_text(tags), "$tone-muted")
        self.query_one(".dialog").mount(Static(text), after=self.query_one(Input))


def tags_text(tags: Sequence[tuple[str, int]]) -> str:
    """The tags, those of most conversations first, each with its number; what tags are for where there are none."""
    if not tags:
        return NO_TAGS
    shown = sorted(tags, key=lambda tag: -tag[1])[:MOST_TAGS]
    parts = [f"{one_line(name, 40)} {count:,}" for name, count in shown]
    if len(tags) > MOST_TAGS:
        parts.append(f"{len(tags) - MOST_TAGS:,} more")
    return f"Tags in use: {' · '.join(parts)}"
