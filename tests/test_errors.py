"""Errors can be handed from one process to another."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import engine
import screens
import workbench
from engine.base.errors import FilterError
from engine.conversations.filters import parse_filter


def exceptions() -> Iterator[type[BaseException]]:
    """All classes of exceptions that the program declares, but for those of its optional parts."""
    for package in (engine, screens, workbench):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.endswith("__main__"):
                continue
            try:
                module = importlib.import_module(found.name)
            except ModuleNotFoundError:
                continue
            for value in vars(module).values():
                is_error = inspect.isclass(value) and issubclass(value, BaseException)
                if is_error and value.__module__ == found.name:
                    yield value


def made(kind: type[BaseException]) -> BaseException:
    """An instance, with a value for each argument that must be given."""
    values: dict[str, Any] = {"int": 3, "OSError": OSError(28, "full")}
    return kind(
        *(
            values.get(one.annotation, "a text")
            for one in list(inspect.signature(kind.__init__).parameters.values())[1:]
            if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
        )
    )


def test_every_error_can_be_pickled() -> None:
    """Every exception comes out of a pickle as it went in."""
    kinds = list(exceptions())
    assert len(kinds) > 40
    for kind in kinds:
        error = made(kind)
        again = pickle.loads(pickle.dumps(error))

        assert type(again) is kind
        assert (str(again), again.args) == (str(error), error.args)
        assert {name: str(value) for name, value in vars(again).items()} == {
            name: str(value) for name, value in vars(error).items()
        }


def test_a_pool_raises_it() -> None:
    """A filter that cannot be understood is an error in the process that handed it to a pool."""
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(FilterError) as raised,
    ):
        pool.submit(parse_filter, "turns>").result(60)
    assert raised.value.at == 6
