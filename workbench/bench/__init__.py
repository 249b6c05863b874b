"""The measurements of `workbench bench`: ratios within one run, so that they mean the same on every machine."""

from workbench.bench.runner import PARTS, run

__all__ = ["PARTS", "run"]
