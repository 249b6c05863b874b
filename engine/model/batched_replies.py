"""Replies to many prompts: the cache laid out for them, what prompts begin with alike decoded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from engine.model.cache_layout import Layout, layouts
from engine.model.generation import (
    PARALLEL,
    GenerativeModel,
    Reply,
    Task,
    refuse_too_long,
    write,
)
from engine.model.shared_prefixes import share_beginnings


def generate(
    model: GenerativeModel, tasks: Sequence[Task], progress: Callable[[int], None] | None = None
) -> list[Reply]:
    """Writes one reply to each task; what the model held is forgotten.

    Args:
        tasks: None of them begun.
        progress: Called now and then with the number of replies that are done.

    Raises:
        ModelError: A prompt does not fit the context.
        Cancelled: The request was cancelled.
    """
    refuse_too_long(tasks, model.longest)
    if model.capacity.forkable:
        found = layouts([task.need for task in tasks], model.widest)
    else:
        found = [Layout(range(len(tasks)), 0)]
    replies: dict[int, Reply] = {}
    for layout in found:
        some = [tasks[number] for number in layout.members]
        told = progress and partial(_added, progress, len(replies))
        replies.update(zip(layout.members, _together(model, some, layout, told), strict=True))
    model.clear()
    return [replies[number] for number in range(len(tasks))]


def _added(progress: Callable[[int], None], before: int, count: int) -> None:
    progress(before + count)


def _together(
    model: GenerativeModel,
    tasks: Sequence[Task],
    layout: Layout,
    progress: Callable[[int], None] | None,
) -> list[Reply]:
    model.arrange(layout.separate)
    count = model.capacity.sequences
    most = count // 4 if layout.separate else count - min(PARALLEL, count // 2)
    beginnings = range(count - 1, count - 1 - most, -1)
    shared, held = share_beginnings(model, tasks, beginnings)
    # Beginnings lie on the last sequences, each of them before those that go on from it.
    first = min((task.source for task in shared if task.source is not None), default=count)
    free = range(min(PARALLEL, first))
    return write(model, shared, free, progress, held=held)
