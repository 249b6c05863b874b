"""The measurements of `workbench bench`: ratios within one run, so that they mean the same on every machine."""

from workbench.bench.runner import BUDGET, PARTS, run

__all__ = ["BUDGET", "PARTS", "run"]
