"""The real model of the tests, in this process and in a process of its own; expanded to F32 where results must be
exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.model.interface import LoadOptions
from engine.model.llamacpp import LlamaModel, quantize
from engine.worker.client import ModelProcess
from tests.engine.model.weights import SMALL, write_shallow


@pytest.fixture(scope="session")
def expanded(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same weights in F32, half a gigabyte that is removed after the session."""
    path = tmp_path_factory.mktemp("weights") / "f32.gguf"
    quantize(shipped, path, "f32", 2)
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def exact_weights(shipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Nine layers of the same weights in F32: enough for claims that hold at any depth, such as that a batch gives what
    its parts give alone. What it writes makes no sense."""
    path = tmp_path_factory.mktemp("weights") / "exact.gguf"
    write_shallow(shipped, path, exact=True)
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def loaded(exact_weights: Path) -> Iterator[LlamaModel]:
    """The nine layers in F32 in this process, with a small context."""
    model = LlamaModel(exact_weights, SMALL, lambda: False)
    yield model
    model.close()


@pytest.fixture
def model(loaded: LlamaModel) -> LlamaModel:
    """The F32 model with an empty cache and no adapter."""
    loaded.use_adapter(None)
    loaded.clear()
    return loaded


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ModelProcess]:
    """A model process that is not started yet."""
    client = ModelProcess(tmp_path / "worker.log")
    yield client
    client.close()


@pytest.fixture(scope="module")
def shared_process(
    shallow_weights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ModelProcess]:
    """A model process with a quick format of the model loaded, for tests that do not harm it."""
    client = ModelProcess(tmp_path_factory.mktemp("log") / "worker.log")
    client.load(shallow_weights, LoadOptions(context=SMALL.context))
    yield client
    client.close()
