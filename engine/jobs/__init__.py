"""Runs stages as jobs: progress, cancel, resume."""
