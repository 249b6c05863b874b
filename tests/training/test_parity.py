"""The parity check at the end of a run: an adapter in PEFT and in llama.cpp."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path

import gguf
import pytest

from engine.model.adapter_files import AdapterOrigin, base_fingerprint
from engine.model.catalog import embedded_model
from engine.model.gguf_file import read_gguf
from engine.training.config import TrainConfig
from engine.training.events import RunDirectory
from tests.training.tiny_bases import tiny_model, with_adapter, write_gguf
from training import gguf_adapter
from training.base import load_base
from training.gguf_adapter import TOKENS, ParitySkipped, check_parity, convert, fingerprint_of

LOGS = (
    (
        "TURN 1, STEP 1, user chat:\nHow many files end in .txt?\n\n",
        "TURN 1, STEP 2, assistant action:\nfind . -name '*.txt' | wc -l\n\n",
        "TURN 1, STEP 3, tool chat:\n14\n\n",
        "TURN 1, STEP 4, assistant chat:\nThere are 14 such files – in «all» folders. ✓\n\n",
    ),
    (
        "TURN 1, STEP 1, user chat:\nPlease book a table for 2 at eight.\n\n",
        "TURN 1, STEP 2, assistant chat:\nAt which restaurant?\n\n",
        "TURN 2, STEP 3, user chat:\nNandos, in the centre\n\n",
        "TURN 2, STEP 4, assistant chat:\nBooked: Nandos, 20:00, 2 people. Reference XJ3-99.\n\n",
    ),
)


def run_in(folder: Path, copies: int = 1) -> RunDirectory:
    """A run directory with held-out logs."""
    lines = [
        json.dumps({"id": str(at), "texts": texts, "boundaries": [1, 3], "kept": 0})
        for at, texts in enumerate(LOGS * copies)
    ]
    run = RunDirectory(folder)
    run.valid.write_text("\n".join(lines) + "\n", "utf-8")
    return run


class TestTiny:
    @pytest.fixture
    def run(self, tmp_path: Path) -> RunDirectory:
        """A run on a tiny model that has just ended; the base is `base.gguf`."""
        run = run_in(tmp_path, copies=5)
        model = tiny_model("llama")
        write_gguf(model, tmp_path / "base.gguf")
        with_adapter(model, run.adapter)
        convert(run.adapter, model.config, run.adapter_gguf, AdapterOrigin())
        return run

    def config(self, run: RunDirectory) -> TrainConfig:
        return TrainConfig(base=str(run.path / "base.gguf"))

    def test_says_the_same(self, run: RunDirectory) -> None:
        """The most probable token is the same everywhere, up to the bound on tokens; no temporary file is left, nor one
        of a killed process.
        """
        before = set(run.path.iterdir())
        (run.path / "parity-killed").mkdir()
        (run.path / "parity-killed" / "f32.gguf").write_bytes(b"GGUF")
        found = check_parity(run, self.config(run))
        assert (found.top1, found.tokens) == (1.0, TOKENS)
        assert found.max_dp < 2e-3
        assert found.moved > 0.05
        assert {path.name for path in set(run.path.iterdir()) - before} == {"parity.log"}

    def test_tokens_that_differ(self, run: RunDirectory) -> None:
        """Where the tokenizers split text differently, as those of the tiny model do, the check fails."""
        found = check_parity(run, self.config(run))
        assert not found.same_tokens
        assert (found.passed, "other tokens" in found.failing) == (False, True)
        assert replace(found, same_tokens=True).passed

    def test_applied_wrongly(self, run: RunDirectory) -> None:
        """An adapter that llama.cpp applies with another strength fails."""
        config = tiny_model("llama").config
        weights = run.adapter / "adapter_model.safetensors"
        kept = weights.read_bytes()
        scale_b(run.adapter, 0.5)
        convert(run.adapter, config, run.adapter_gguf, AdapterOrigin())
        weights.write_bytes(kept)
        found = replace(check_parity(run, self.config(run)), same_tokens=True)
        assert not found.passed
        assert "most probable token" in found.failing or "differ by up to" in found.failing

    def test_changes_nothing(self, run: RunDirectory) -> None:
        """An adapter that changes nothing fails, though both sides agree on it."""
        scale_b(run.adapter, 0.0)
        convert(run.adapter, tiny_model("llama").config, run.adapter_gguf, AdapterOrigin())
        found = check_parity(run, self.config(run))
        assert (found.top1, found.moved) == (1.0, 0.0)
        assert replace(found, same_tokens=True).failing == "the adapter changes nothing"

    def test_base_that_one_side_cannot_read(self, run: RunDirectory) -> None:
        """A GGUF file of an architecture that `transformers` cannot read is named as the reason."""
        model = tiny_model("smollm3")
        base = write_gguf(model, run.path / "smollm3.gguf")
        with_adapter(model, run.adapter)
        convert(run.adapter, model.config, run.adapter_gguf, AdapterOrigin())
        with pytest.raises(ParitySkipped, match=r"smollm3\.gguf"):
            check_parity(run, TrainConfig(base=str(run.path), base_gguf=str(base)))


def scale_b(adapter: Path, factor: float) -> None:
    """Multiplies the B matrices of an adapter in place."""
    from safetensors.torch import load_file, save_file

    path = adapter / "adapter_model.safetensors"
    found = load_file(path)
    save_file({n: t * factor if ".lora_B." in n else t for n, t in found.items()}, path)


def test_default_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter of the default model passes: same fingerprint, same tokens, same most probable ones, and differences a
    hundred times smaller than what the adapter changes.
    """
    # `transformers` parses the header of the base for settings, tokens and weights.
    monkeypatch.setattr(gguf, "GGUFReader", functools.cache(gguf.GGUFReader))
    base = embedded_model()
    run = run_in(tmp_path)
    config = TrainConfig(base=str(base), precision="f32")
    model, tokenizer = load_base(config)
    tuned = with_adapter(model, run.adapter, strength=0.02)
    origin = AdapterOrigin(fingerprint_of(model), "smollm2-135m", end_token=tokenizer.end_token)
    assert origin.base_fingerprint == base_fingerprint(read_gguf(base))
    convert(run.adapter, model.config, run.adapter_gguf, origin)
    monkeypatch.setattr(gguf_adapter, "load_base", lambda _: (tuned.unload(), tokenizer))

    found = check_parity(run, config)
    assert found.passed
    assert found.tokens > 150
    assert found.moved > 0.05
    assert found.max_dp < found.moved / 100
