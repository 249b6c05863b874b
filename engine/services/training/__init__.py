"""Training runs of a project: planning, files, process and history of a run. The trainer itself is in `training/`."""
