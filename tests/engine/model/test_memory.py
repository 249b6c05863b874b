"""The memory that a model needs is known, and refused, before its weights are read."""

from __future__ import annotations

import llama_cpp
import pytest

from engine.base.errors import ModelError
from engine.model.catalog import embedded_model
from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions
from engine.model.llamacpp import files
from engine.model.llamacpp.model import LlamaModel
from engine.model.memory_plan import available_memory, estimate


class TestNeed:
    def test_agrees_with_the_loaded_model(self) -> None:
        """The estimated weights are those that llama.cpp reports of the loaded model."""
        options = LoadOptions(context=512)
        need = estimate(read_gguf(embedded_model()), options)
        model = LlamaModel(embedded_model(), options, lambda: False)
        try:
            size = llama_cpp.llama_model_size(model._model)
            assert need.weights == pytest.approx(size, rel=0.001)
        finally:
            model.close()

    def test_available_is_what_the_system_says(self) -> None:
        """Where the system reports free memory, it is above zero and below a petabyte."""
        available = available_memory()

        assert available is None or 0 < available < 1 << 50


class TestRefusal:
    def test_too_large_is_refused_with_figures(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A model that does not fit is refused before loading; the message has the needed and the free memory."""
        monkeypatch.setattr(files, "available_memory", lambda: 100_000_000)
        with pytest.raises(ModelError, match=r"needs 0\.\d GB.*0\.1 GB are free"):
            LlamaModel(embedded_model(), LoadOptions(), lambda: False)
