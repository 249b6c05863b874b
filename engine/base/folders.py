"""Folders of what belongs to no project: models, caches, logs, preferences; and the version of the program."""

from __future__ import annotations

import os
from pathlib import Path

from engine.base.errors import WorkbenchError
from engine.base.files import create_private_file, create_private_folder

APP = "conversation-workbench"
"""Name of the program, of its package and of its folders."""


def data_dir() -> Path:
    """Returns the folder of the model catalog; `WORKBENCH_DATA` overrides it."""
    return _folder("WORKBENCH_DATA", "user_data_path")


def cache_dir() -> Path:
    """Returns the folder of tuned models, which may be deleted; `WORKBENCH_CACHE` overrides it."""
    return _folder("WORKBENCH_CACHE", "user_cache_path")


def config_dir() -> Path:
    """Returns the folder of the preferences and of `keymap.toml`; `WORKBENCH_CONFIG` overrides it."""
    return _folder("WORKBENCH_CONFIG", "user_config_path")


def preferences_file() -> Path:
    """Returns the path of the preferences, which the program writes."""
    return config_dir() / "preferences.json"


def keymap_file() -> Path:
    """Returns the path of the key bindings, which a person writes."""
    return config_dir() / "keymap.toml"


def log_dir() -> Path:
    """Returns the folder of log files, inside the cache folder."""
    return cache_dir() / "logs"


def log_to_file() -> Path:
    """Sends log records to a file, because the terminal belongs to the screens or to a command; returns its path.

    Raises:
        WorkbenchError: The folder cannot be written.
    """
    import logging

    log = log_dir() / "workbench.log"
    try:
        create_private_folder(log.parent)
        create_private_file(log)
        logging.basicConfig(
            filename=log,
            level=logging.INFO,
            format="%(asctime)s %(levelname)s %(name)s %(message)s",
        )
    except OSError as error:
        raise WorkbenchError(
            f"The folder for logs, {log.parent}, cannot be written: {error.strerror}.",
            "Free space, or name a folder for caches and logs in WORKBENCH_CACHE.",
        ) from error
    return log


def version() -> str:
    """Returns the version of the program."""
    from importlib import metadata

    return metadata.version(APP)


def shown_path(path: Path, project: Path) -> str:
    """Returns a path as a screen shows it: relative to the folder of the project, or with `~` for the home folder."""
    if path.is_relative_to(project):
        return str(path.relative_to(project))
    home = Path(os.path.expanduser("~"))
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _folder(variable: str, finder: str) -> Path:
    """Returns the folder that a variable of the environment names, else that of a function of `platformdirs`."""
    path = os.environ.get(variable)
    if path:
        return Path(os.path.expanduser(path)).absolute()
    import platformdirs

    return Path(getattr(platformdirs, finder)(APP, appauthor=False))
