"""Running stages as jobs: progress, cancel, resume."""
