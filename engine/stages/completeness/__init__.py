"""Stages of completeness: scores, hidden states, the probe, remaining tasks."""
