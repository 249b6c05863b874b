"""Writes replies to many prompts: chooses the cache layout and shares common prefixes."""

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
from engine.model.shared_prefixes import share_prefixes


def generate(
    model: GenerativeModel, tasks: Sequence[Task], progress: Callable[[int], None] | None = None
) -> list[Reply]:
    """Writes one reply to each task. The cache is cleared.

    Args:
        tasks: Tasks without decoded tokens.
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
        report = progress and partial(_added, progress, len(replies))
        replies.update(zip(layout.members, _together(model, some, layout, report), strict=True))
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
    prefixes = range(count - 1, count - 1 - most, -1)
    shared, held = share_prefixes(model, tasks, prefixes)
    # Prefixes use the last sequences; each has a higher number than those that extend it.
    first = min((task.source for task in shared if task.source is not None), default=count)
    free = range(min(PARALLEL, first))
    return write(model, shared, free, progress, held=held)
