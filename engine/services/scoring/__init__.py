"""Scoring runs: what one would cost."""
