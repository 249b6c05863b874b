"""The order of messages by their numbers or times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_NUMBER = re.compile(r"\s*-?\d+(?:\.\d+)?\s*$")
_ISO = re.compile(r"\s*\d{4}-\d\d-\d\d(?:[T ]\d\d:|\s*$)")


def order_keys(values: Sequence[Any]) -> list[float] | None:
    """Numbers in the order of the values, if all of them are numbers, or all are dates and times of ISO 8601; else
    None. Numbers and times may be texts; a time without an offset is in UTC, unless only some have one."""
    if not values:
        return None
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return list(values)  # as they are: an integer may be too large for a float
    if not all(isinstance(value, str) for value in values):
        return None
    if all(_NUMBER.match(value) for value in values):
        return [float(value) for value in values]
    if not all(_ISO.match(value) for value in values):
        return None
    try:
        times = [datetime.fromisoformat(value.strip()) for value in values]
    except ValueError:
        return None
    if len({time.tzinfo is None for time in times}) > 1:
        return None
    return [(time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() for time in times]


def in_order(items: list[_Item], values: Sequence[Any]) -> list[_Item]:
    """The items in the order of their values, if these can be compared; else as they are. Where values only fall, the
    items are turned round, so that those of one value are too."""
    keys = order_keys(values)
    if keys is None:
        return items
    if newest_first(keys):
        items, keys = items[::-1], keys[::-1]
    return [items[at] for at in sorted(range(len(items)), key=keys.__getitem__)]


def newest_first(keys: Sequence[float]) -> bool:
    """Whether the keys only fall, as some interfaces list the newest first."""
    return len(keys) > 1 and keys[0] > keys[-1] and list(keys) == sorted(keys, reverse=True)


def falls(values: Sequence[Any]) -> bool:
    """Whether a value is earlier than the one before it, where the two can be compared."""
    if all(value is None for value in values):  # the usual case: no message has a time
        return False
    keys = order_keys(values)
    if keys is not None:
        return any(later < earlier for earlier, later in pairwise(keys))
    pairs = filter(None, map(order_keys, pairwise(values)))
    return any(later < earlier for earlier, later in pairs)
