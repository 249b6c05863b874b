"""Stages run on weights that are quick to read."""

from __future__ import annotations

from tests.engine.goals.stages.conftest import weights

__all__ = ["weights"]
