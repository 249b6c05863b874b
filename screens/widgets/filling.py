"""What an empty screen says: what belongs there, and the key that brings it."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content


@dataclass(frozen=True, slots=True)
class Filling:
    """What fills a screen that is empty.

    Attributes:
        what: What is missing here, in a sentence or two; display-safe.
        starts: What enter does, such as "imports a file or a folder".
        action: What enter runs.
        mode: The mode whose screen has the action; empty for the present screen.
        others: Further keys that help here, each with what it does.
        alone: Nothing else has to be there first. Otherwise a project without conversations offers an import instead.
    """

    what: str
    starts: str
    action: str
    mode: str = ""
    others: tuple[tuple[str, str], ...] = ()
    alone: bool = False

    def content(self) -> Content:
        """The text."""
        keys = (("enter", self.starts), *self.others)
        width = max(len(does) for _, does in keys)
        parts: list[str | tuple[str, str]] = [f"{self.what}\n"]
        for key, does in keys:
            # all lines are as long, for they are centered
            parts += ["\n", (f"{key:<{len(keys[0][0])}} ", "bold $tone-accent"), f"{does:<{width}}"]
        return Content.assemble(*parts)


IMPORT = Filling(
    "No conversations yet.",
    "imports a file or a folder of logs, in any of a hundred formats",
    "import_files",
    alone=True,
)
SCORE = Filling(
    "Nothing is scored yet. A score says how likely it is that a conversation has ended.",
    "scores the conversations, and says first how long it takes",
    "run_scoring",
)
CLUSTER = Filling(
    "No goals yet: what users wanted, as groups of conversations.",
    "groups the conversations, and says first how long it takes",
    "run_clustering",
    mode="goals",
)
