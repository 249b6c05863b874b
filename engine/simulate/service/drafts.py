"""A file of proposed shards, which a person edits, approves or rejects. Every change is written at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from engine.base.errors import NotFound, UsageError
from engine.simulate.records import PlayRow
from engine.simulate.service.records import DraftShard, ShardDraft, State
from engine.simulate.service.sharded import drafts_of, read_drafts, write_drafts
from engine.simulate.sharded.making.draft import Draft
from engine.simulate.sharded.making.play import holds


class DraftsFile:
    """The drafts of one file. Every change is written to the file before it is returned.

    Changes raise UsageError where they cannot be made, and ProjectError where the file cannot be written.
    """

    def __init__(self, path: str, drafts: list[Draft]) -> None:
        self._path, self._drafts = path, drafts
        self._guard = threading.Lock()

    @property
    def path(self) -> str:
        """Path of the file."""
        return self._path

    def items(self) -> list[ShardDraft]:
        """All drafts in order."""
        with self._guard:
            return [_shown(draft) for draft in self._drafts]

    def decide(self, nth: int, state: State) -> ShardDraft:
        """Sets the state of the draft at an index; returns the changed draft."""
        return self._change(nth, lambda draft: draft.decided(state))

    def edit(self, nth: int, shard_id: int, text: str) -> ShardDraft:
        """Replaces the text of a shard; returns the changed draft."""
        return self._change(nth, lambda draft: draft.edited(shard_id, text))

    def move(self, nth: int, shard_id: int, by: int) -> ShardDraft:
        """Moves a shard by some places, towards the start if `by` is negative; returns the changed draft."""
        return self._change(nth, lambda draft: draft.moved(shard_id, by))

    def leave_out(self, nth: int, shard_id: int) -> ShardDraft:
        """Removes a shard; returns the changed draft.

        Raises:
            UsageError: It is the only shard of the instruction.
        """
        if len(self._drafts[nth].candidates) == 1:
            raise UsageError("The last shard cannot be left out.", "Reject the instruction.")
        return self._change(nth, lambda draft: draft.without(shard_id))

    def _change(self, nth: int, act: Callable[[Draft], Draft]) -> ShardDraft:
        with self._guard:
            changed = list(self._drafts)
            changed[nth] = act(changed[nth])
            # The file is written first: if that fails, the drafts in memory stay as they are in the file.
            write_drafts(Path(self._path), changed)
            self._drafts = changed
            return _shown(changed[nth])


def opened_drafts(path: str, proposed: Callable[[], Iterable[PlayRow]]) -> DraftsFile:
    """The drafts of a file; if there is no file, the proposed drafts are written to a new one.

    Args:
        proposed: Reads the plays that proposed shards.

    Raises:
        UsageError: The file holds no drafts, or there is neither a file nor a proposal.
        ProjectError: The file cannot be written.
    """
    place = Path(os.path.expanduser(path.strip()))
    if place.exists():
        return DraftsFile(str(place), read_drafts(place))
    # A later proposal for the same instruction, by another model or with a check, replaces the earlier one.
    drafts = list({draft.task_id: draft for draft in drafts_of(proposed())}.values())
    if not drafts:
        raise NotFound(
            f"There is no file {place}, and this project has proposed no shards.",
            "Name a file of proposed shards, or have some proposed: simulate `shards`.",
        )
    write_drafts(place, drafts)
    return DraftsFile(str(place), drafts)


def _shown(draft: Draft) -> ShardDraft:
    check = draft.check
    return ShardDraft(
        draft.task_id,
        draft.task,
        draft.text,
        tuple(
            DraftShard(one.shard_id, one.text, one.piece.start, one.piece.end, one.by)
            for one in draft.candidates
        ),
        tuple(draft.lost),
        draft.missing,
        draft.segmented,
        draft.state,
        check.get("full"),
        check.get("concat"),
        holds(check) if check else None,
    )
