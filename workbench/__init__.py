"""The program, and its public Python API: `import workbench; p = workbench.open("support.wb")`.

Command line, app and preferences lie here as well and hold almost no logic. The names of `__all__` are the public ones
(docs/python.md says what is stable). Each is imported when it is first used, so `import workbench` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.base.errors import WorkbenchError
    from workbench.api.messages import ConversationScore, Probability, complete, end_model, score
    from workbench.api.project import ImportResult, Project, open

_MODULES = {
    "open": "workbench.api.project",
    "Project": "workbench.api.project",
    "ImportResult": "workbench.api.project",
    "score": "workbench.api.messages",
    "complete": "workbench.api.messages",
    "end_model": "workbench.api.messages",
    "ConversationScore": "workbench.api.messages",
    "Probability": "workbench.api.messages",
    "WorkbenchError": "engine.base.errors",
}
"""The module of each public name."""

__all__ = [
    "ConversationScore",
    "ImportResult",
    "Probability",
    "Project",
    "WorkbenchError",
    "complete",
    "end_model",
    "open",
    "score",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from engine.base.folders import version

        return version()
    if name not in _MODULES:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    member = getattr(import_module(_MODULES[name]), name)
    globals()[name] = member
    return member


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
