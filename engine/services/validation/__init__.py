"""Reads what a project holds and holds it against truth: response trees, and completeness scores."""
