"""`python -m tests.code_lines` counts the code of each folder, without docstrings, comments and blank lines."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = ("workbench", "screens", "engine", "training")
_NO_CODE = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)


def _is_docstring(statement: ast.stmt) -> bool:
    """Returns whether a statement is a string alone, as docstrings of modules, classes, functions and variables are."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def code_lines(text: str) -> int:
    """Returns the number of lines of a module that hold code.

    Raises:
        SyntaxError: The text is not Python.
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                if _is_docstring(statement):
                    end = statement.end_lineno or statement.lineno
                    lines.difference_update(range(statement.lineno, end + 1))
    return len(lines)


def counts(root: Path, folders: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Returns files and lines of code of each subject, by its path of at most two folders."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for folder in folders:
        for path in (root / folder).rglob("*.py"):
            parts = path.relative_to(root).parts[:-1]
            subject = "/".join(parts[:2])
            files[subject] += 1
            lines[subject] += code_lines(path.read_text(encoding="utf-8"))
    return {subject: (files[subject], lines[subject]) for subject in sorted(files)}


def main() -> None:
    """Prints a line for each subject and the sums of source and tests."""
    for title, folders in (("source", SOURCE), ("tests", ("tests",))):
        table = counts(REPOSITORY, folders)
        for subject, (files, lines) in table.items():
            sys.stdout.write(f"{subject:<28}{files:>6}{lines:>8,}\n")
        sums = [sum(pair[nth] for pair in table.values()) for nth in (0, 1)]
        sys.stdout.write(f"{title:<28}{sums[0]:>6}{sums[1]:>8,}\n\n")


if __name__ == "__main__":
    main()
