"""Trains a LoRA adapter from a run directory: `python -m training RUN_DIR`. Never opens a project file."""
