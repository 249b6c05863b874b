"""Parts that are made when they are first used."""

from __future__ import annotations

import functools
import threading
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")

_GUARD = threading.RLock()


class made_once(functools.cached_property[T]):
    """A `cached_property` that makes its value once, also where several threads ask for it at the same time."""

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        with _GUARD:
            return super().__get__(instance, owner)
