"""Opens a model in this process, where a measurement stands next to its logits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.model.catalog import LoadableModel
from engine.model.llamacpp.files import gpu_offload
from engine.model.llamacpp.model import LlamaModel
from engine.model.memory_plan import with_layers_that_fit


@contextmanager
def opened(model: LoadableModel) -> Iterator[LlamaModel]:
    """Yields the model with the options that the model process would load it with; closes it afterwards.

    Raises:
        ModelError: It cannot be loaded.
    """
    options = model.options
    if gpu_offload():
        options = with_layers_that_fit(model.measured_file, options)
    weights = LlamaModel(model.measured_file, options, lambda: False)
    try:
        yield weights
    finally:
        weights.close()
