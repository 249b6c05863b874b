"""The order of a list by a value that some items do not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def ordered_by(
    items: Iterable[T], value: Callable[[T], Any], *, descending: bool = False
) -> list[T]:
    """The items by a value; those without one (None) come last, equal ones keep their order."""
    valued = [(value(item), item) for item in items]
    known = [pair for pair in valued if pair[0] is not None]
    known.sort(key=lambda pair: pair[0], reverse=descending)
    return [item for _, item in known] + [item for found, item in valued if found is None]
