"""Everything without a screen; importable and testable without a terminal."""
