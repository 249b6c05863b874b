"""The schema of the project file, step by step."""
