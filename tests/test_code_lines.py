"""Lines of code are counted as the tables of sizes say."""

from __future__ import annotations

from tests.code_lines import code_lines

MODULE = '''"""A module."""

# A comment.
NAME = """two
lines"""
"""A docstring of a variable."""


class Thing:
    """A class."""

    def work(self) -> int:
        """A function."""
        return 1  # why
'''


def test_code_lines() -> None:
    """Docstrings, also of variables, comments and blank lines do not count; a text over two lines does."""
    assert code_lines(MODULE) == 5
