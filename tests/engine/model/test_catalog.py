"""The catalog: names, files, results of tuning, and fingerprints."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.model.adapter_files import AdapterOrigin
from engine.model.catalog import DEFAULT_MODEL, FIRST_LAYERS, Catalog, embedded_model
from engine.model.catalog_files import PULLED, HubFile, Manifest, manifest_path
from tests.engine.model.small_adapters import adapter_file

TUNED: dict[str, Any] = {
    "candidates": [],
    "chosen": "bf16",
    "file": "tuned.gguf",
    "threads": 3,
    "tokens_per_s": 900.0,
    "gain": 2.5,
    "noise": 0.004,
}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """An empty catalog."""
    return Catalog(tmp_path / "data", tmp_path / "cache")


def weights(path: Path, content: bytes = b"GGUF....") -> Path:
    """A file in place of weights; the catalog never loads one."""
    path.write_bytes(content)
    return path


class TestFirstLayers:
    def test_another_model_for_scores(self, catalog: Catalog) -> None:
        """The first layers have a label and fingerprints of their own, and the speed of their own copy."""
        entry = catalog.entry(None)
        whole, shortened = catalog.loadable(entry), catalog.loadable(entry, layers=FIRST_LAYERS)

        assert shortened.label == f"{DEFAULT_MODEL} ({FIRST_LAYERS} layers)"
        assert shortened.fingerprints == {**whole.fingerprints, "layers": FIRST_LAYERS}
        assert shortened.path == whole.path
        assert shortened.weights_copy is not None
        shortened.weights_copy.parent.mkdir(parents=True)
        weights(shortened.weights_copy)
        catalog.record_speed(whole, 100.0, 0.01)
        catalog.record_speed(shortened, 200.0, 0.02)
        assert catalog.loadable(entry).tokens_per_s == 100.0
        assert catalog.loadable(entry, layers=FIRST_LAYERS).tokens_per_s == 200.0


class TestNames:
    def test_added_file_is_found_by_name_and_after_reopening(
        self, catalog: Catalog, tmp_path: Path
    ) -> None:
        """An added model is found by its name, also in the next session."""
        path = weights(tmp_path / "big.gguf")
        catalog.add(path, "large")
        again = Catalog(tmp_path / "data", tmp_path / "cache")

        assert again.entry("large").path == path
        assert [entry.name for entry in again.entries()] == [DEFAULT_MODEL, "large"]


class TestRunnable:
    def test_as_shipped(self, catalog: Catalog) -> None:
        """Without tuning the shipped file is loaded, known by its SHA-256."""
        model = catalog.loadable(catalog.entry(None))
        digest = hashlib.sha256(embedded_model().read_bytes()).hexdigest()

        assert (model.path, model.fingerprints["model_sha256"]) == (embedded_model(), digest)
        assert (model.noise, model.tokens_per_s) == (None, None)

    def test_tuned_copy_is_used_while_it_is_there(self, catalog: Catalog, tmp_path: Path) -> None:
        """After tuning the copy in the cache is loaded; when it was deleted, the shipped file again."""
        path = weights(tmp_path / "m.gguf")
        copy = catalog.cache / "tuned.gguf"
        copy.parent.mkdir(parents=True)
        weights(copy, b"GGUF tuned")
        catalog.record_tuning(catalog.entry(str(path)), TUNED)
        tuned = catalog.loadable(catalog.entry(str(path)))
        assert (tuned.path, tuned.label, tuned.options.threads) == (copy, "m (bf16)", 3)
        assert (tuned.noise, tuned.tokens_per_s) == (0.004, 900.0)

        copy.unlink()
        plain = catalog.loadable(catalog.entry(str(path)))
        assert (plain.path, plain.label) == (path, "m")
        assert plain.fingerprints["model_sha256"] != tuned.fingerprints["model_sha256"]

    def test_adapter_is_part_of_the_fingerprint(self, catalog: Catalog, tmp_path: Path) -> None:
        """The fingerprint differs with and without an adapter, and with a changed one."""
        entry = catalog.entry(None)
        adapter = weights(tmp_path / "a.gguf")
        with_adapter = catalog.loadable(entry, adapter).fingerprints
        weights(adapter, b"GGUF changed")
        changed = catalog.loadable(entry, adapter).fingerprints

        assert with_adapter != catalog.loadable(entry).fingerprints
        assert with_adapter["adapter_sha256"] != changed["adapter_sha256"]


class TestAdapters:
    def test_what_it_was_made_of(self, catalog: Catalog, tmp_path: Path) -> None:
        """The facts of an adapter come from its file and the card beside it; a damaged file or card is skipped."""
        origin = AdapterOrigin("n1:1", "smollm2-135m", "sha256:2", "boundary", 2)
        adapter_file(tmp_path / "a.gguf", origin=origin)
        (tmp_path / "a.json").write_text(json.dumps({"auroc": 0.93}))
        (tmp_path / "b.gguf").write_bytes(b"GGUF")
        (tmp_path / "b.json").write_text("{")
        for name in ("a", "b"):
            catalog._records.adapters[name] = str(tmp_path / f"{name}.gguf")
        first, second = catalog.adapters()
        assert (first.provenance, first.auroc) == (origin, 0.93)
        assert (second.provenance, second.auroc) == (AdapterOrigin(), None)

    def test_a_run_stands_for_its_adapter(self, catalog: Catalog, tmp_path: Path) -> None:
        """A run directory is accepted as its adapter, with the run's name; one without an adapter is an error."""
        run = tmp_path / "demo.training" / "first"
        run.mkdir(parents=True)
        with pytest.raises(UsageError, match=r"first holds no adapter\.gguf"):
            catalog.resolve_adapter_path(run)
        file = adapter_file(run / "adapter.gguf")
        assert catalog.resolve_adapter_path(str(run)) == file
        assert catalog.add_adapter(run).name == "first"
        model = catalog.loadable(catalog.entry(None), "first")
        assert (model.adapter, model.adapter_name) == (file, "first")
        assert model.fingerprints["adapter"] == "first"

    def test_found_again_by_content(self, catalog: Catalog, tmp_path: Path) -> None:
        """An adapter that was used once is found by its content in the next session, until it changes or is gone."""
        file = adapter_file(tmp_path / "a.gguf")
        digest = catalog.loadable(catalog.entry(None), file).fingerprints["adapter_sha256"]
        again = Catalog(tmp_path / "data", tmp_path / "cache")
        assert again.adapter_by_sha256(digest) == file
        assert again.adapter_by_sha256("0" * 64) is None

        added = adapter_file(tmp_path / "b.gguf")
        again.add_adapter(added)
        weights(file, b"GGUF changed")
        assert again.adapter_by_sha256(digest) == added
        added.unlink()
        assert again.adapter_by_sha256(digest) is None


class TestPulled:
    def pulled(self, catalog: Catalog, name: str = "tiny", content: bytes = b"GGUF....") -> Path:
        """A file as a pull leaves it."""
        folder = catalog.data / PULLED / "someone--Tiny-GGUF"
        folder.mkdir(parents=True, exist_ok=True)
        path = weights(folder / f"{name}-q8.gguf", content)
        digest = hashlib.sha256(content).hexdigest()
        part = HubFile(path.name, len(content), digest, path.stat().st_mtime_ns)
        Manifest(name, "http://hub", "someone/Tiny-GGUF", "c0ffee", "mit", "", part).write(folder)
        return path

    def test_is_a_model_of_the_catalog(self, catalog: Catalog) -> None:
        """A pulled file is found by the name in its manifest, also by a catalog that was opened before."""
        path = self.pulled(catalog)
        assert catalog.entry("tiny").path == path
        assert [(entry.name, entry.origin) for entry in catalog.entries()] == [
            (DEFAULT_MODEL, "built in"),
            ("tiny", "pulled"),
        ]

    def test_checksum_of_the_pull(self, catalog: Catalog) -> None:
        """The checksum of the pull is used until the file is written to, so a large file is not read again."""
        path = self.pulled(catalog, content=b"GGUF one")
        manifest = manifest_path(path)
        text = manifest.read_text()
        right = hashlib.sha256(b"GGUF one").hexdigest()
        manifest.write_text(text.replace(right, "ab" * 32))
        assert Catalog(catalog.data, catalog.cache).sha256(path) == "ab" * 32
        path.write_bytes(b"GGUF two")
        found = Catalog(catalog.data, catalog.cache).sha256(path)
        assert found == hashlib.sha256(b"GGUF two").hexdigest()

    def test_manifest_that_cannot_be_read(self, catalog: Catalog) -> None:
        """A damaged manifest hides its own model only."""
        broken, whole = self.pulled(catalog, "broken"), self.pulled(catalog, "whole")
        for text in ("{", "[]", '{"file": {}}', '{"file": {"path": 1}}'):
            manifest_path(broken).write_text(text)
            assert [entry.path for entry in catalog.entries()][1:] == [whole]


def test_forgetting(catalog: Catalog, tmp_path: Path) -> None:
    """A removed model is forgotten in later sessions too, and its file is not deleted."""
    path = weights(tmp_path / "mine.gguf")
    catalog.add(path)
    catalog.forget("mine")
    assert [entry.name for entry in Catalog(catalog.data, catalog.cache).entries()] == [
        DEFAULT_MODEL
    ]
    assert path.is_file()
