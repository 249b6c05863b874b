"""The probe that comes with the program, for projects with too few conversations to fit one of their own.

It was fitted to hidden states after the first layers of the built-in model on the program's sample conversations
(`tests/benchmarks/bundled_probe.py` makes the file), so it serves that model alone. How it does on other conversations
is in docs/lab/probe.md. A file with other weights needs another `probe.VERSION`, which is part of the key of the
scores.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from engine.completeness.probe import Probe
from engine.completeness.probe_calibration import Calibration
from engine.completeness.regression import Regression
from engine.model.adapter_files import base_fingerprint
from engine.model.catalog import LoadableModel
from engine.model.gguf_file import read_gguf

PROBE_FILE = Path(__file__).with_name("bundled_probe.json")
"""The file with the weights in base64, the intercept, the number of conversations that the probe was fitted to, the
fingerprint of the model whose states it reads (`engine.model.adapter_files`), and after how many of its layers."""


class BundledProbe(NamedTuple):
    """The bundled probe, and what it reads.

    Attributes:
        probe: The probe itself.
        base_fingerprint: Fingerprint of the whole model whose states it reads.
        layers: Number of first layers of that model after which it reads them.
    """

    probe: Probe
    base_fingerprint: str
    layers: int


def load_bundled_probe() -> BundledProbe:
    """Returns the probe from the file that comes with the program."""
    attributes = json.loads(PROBE_FILE.read_text("utf-8"))
    weights = np.frombuffer(base64.b64decode(attributes["weights"]), dtype="<f4")
    # The weights in the file are calibrated already.
    calibration = Calibration(slope=1.0, intercept=0.0, broken=0.0)
    regression = Regression(weights.astype(np.float64), attributes["intercept"])
    probe = Probe(regression, calibration)
    return BundledProbe(probe, attributes["base_fingerprint"], attributes["layers"])


def bundled_probe_for(model: LoadableModel) -> Probe | None:
    """Returns the bundled probe, or None for a model whose states it cannot read.

    Those are another model, other layers of it, an adapted one, and endpoints.
    """
    if model.endpoint or model.adapter is not None:
        return None
    bundled = load_bundled_probe()
    if model.options.layers != bundled.layers:
        return None
    fingerprint = base_fingerprint(read_gguf(model.path))
    return bundled.probe if fingerprint == bundled.base_fingerprint else None
