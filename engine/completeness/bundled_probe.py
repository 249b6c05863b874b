"""The probe that comes with the program, for projects with too few conversations to fit one of their own.

It was fitted to hidden states of the built-in model on the program's sample conversations
(`tests/benchmarks/bundled_probe.py` makes the file), so it serves that model alone. How it does on other conversations
is in docs/lab/probe.md. A file with other weights needs another `probe.VERSION`, which is part of the key of the
scores.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.completeness.probe import States
from engine.completeness.probe_calibration import Calibration, Floats
from engine.model.adapter_files import base_fingerprint
from engine.model.catalog import LoadableModel
from engine.model.gguf_file import read_gguf

PROBE_FILE = Path(__file__).with_name("bundled_probe.json")
"""The file with the weights, in base64, and the other attributes of `BundledProbe`."""


@dataclass(frozen=True, slots=True)
class BundledProbe:
    """A linear probe with its calibration.

    Attributes:
        weights: Shape (dimensions,); the log-odds of an end are `states @ weights + intercept`.
        conversations: Number of conversations that it was fitted to.
        base_fingerprint: Fingerprint of the model whose states it reads; see `engine.model.adapter_files`.
    """

    weights: States
    intercept: float
    conversations: int
    base_fingerprint: str

    @classmethod
    def load(cls) -> BundledProbe:
        """Returns the probe from the file that comes with the program."""
        attributes = json.loads(PROBE_FILE.read_text("utf-8"))
        weights = np.frombuffer(base64.b64decode(attributes.pop("weights")), dtype="<f4")
        return cls(weights=weights, **attributes)

    def p(self, states: States) -> Floats:
        """Returns the probability of an end at each boundary, at even odds; shape (boundaries,)."""
        log_odds = np.asarray(states @ self.weights + self.intercept, dtype=np.float64)
        return Calibration(slope=1.0, intercept=0.0, broken=0.0).true_end_probability(log_odds)


def bundled_probe_for(model: LoadableModel) -> BundledProbe | None:
    """Returns the bundled probe, or None for a model whose states it cannot read.

    Those are another model, an adapted one, and endpoints.
    """
    if model.endpoints or model.adapter is not None:
        return None
    bundled = BundledProbe.load()
    return bundled if base_fingerprint(read_gguf(model.path)) == bundled.base_fingerprint else None
