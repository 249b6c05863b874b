"""What an empty screen says: what is missing, and the keys of the actions that fill it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.content import Content

START = "screen.fill"
"""Id of the action that runs what fills an empty screen: enter, where a person gave it no other key."""


@dataclass(frozen=True, slots=True)
class EmptyState:
    """What a screen says while it is empty.

    Attributes:
        message: What is missing here, in a sentence or two; display-safe.
        enter_label: What enter does, such as "imports a file or a folder".
        action: The action that enter runs.
        mode: The mode whose screen has the action; empty for the present screen.
        others: Ids of further actions that help here, each with what it does.
        needs_no_conversations: Whether it also fits a project without conversations, where other screens offer an
            import instead.
    """

    message: str
    enter_label: str
    action: str
    mode: str = ""
    others: tuple[tuple[str, str], ...] = ()
    needs_no_conversations: bool = False

    def content(self, key_of: Callable[[str], str]) -> Content:
        """Returns the text.

        Args:
            key_of: Returns the key in force of an action, by the id of the action.
        """
        actions = ((START, self.enter_label), *self.others)
        lines = [(key_of(action), label) for action, label in actions]
        # The lines are padded to one length, because each is centered.
        key_width, label_width = (max(map(len, column)) for column in zip(*lines, strict=True))
        parts: list[str | tuple[str, str]] = [f"{self.message}\n"]
        for key, label in lines:
            parts += [
                "\n",
                (f"{key:<{key_width}} ", "bold $tone-accent"),
                f"{label:<{label_width}}",
            ]
        return Content.assemble(*parts)


IMPORT = EmptyState(
    "No conversations yet.",
    "imports a file or a folder of logs, in any of a hundred formats",
    "import_files",
    needs_no_conversations=True,
)
"""What all screens of a project without conversations say."""
SCORE = EmptyState(
    "Nothing is scored yet. A score says how likely it is that a conversation has ended.",
    "scores the conversations, and says first how long it takes",
    "run_scoring",
)
"""What screens that show scores say where there are none."""
CLUSTER = EmptyState(
    "No goals yet: what users wanted, as groups of conversations.",
    "groups the conversations, and says first how long it takes",
    "run_clustering",
    mode="goals",
)
"""What screens that show goals say where there are none."""
