"""`workbench models use`."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.base import folders
from engine.base.kinds_of_work import WORKS
from engine.base.text import one_line
from engine.model.catalog import DEFAULT_MODEL
from engine.model.service.endpoints import Endpoints
from engine.model.service.run_setup import (
    ModelsInUse,
)
from engine.project.project import Project
from engine.training import adapter_in_use
from workbench.commands.models import open_catalog
from workbench.narration import print_json, print_text


def use_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `use`."""
    parser.add_argument("project")
    parser.add_argument(
        "model",
        nargs="?",
        help="name or path of a model, or endpoints as NAME,NAME2; the built-in model resets the choice"
        " (default: only print what is in use)",
    )
    parser.add_argument(
        "--for",
        dest="works",
        action="append",
        choices=tuple(WORKS),
        help="kind of work; may be repeated (default: all)",
    )


def use(arguments: argparse.Namespace) -> int:
    """Sets the model that a project uses for some kinds of work, or prints the models in use."""
    name: str | None = arguments.model
    endpoints = Endpoints(folders.data_dir(), folders.cache_dir())
    with Project.open(Path(arguments.project), read_only=name is None, upgrade=True) as project:
        in_use = ModelsInUse(project, open_catalog(), endpoints)
        if name is not None:
            in_use.use(name, arguments.works or tuple(WORKS))
        chosen, adapter = in_use.chosen(), adapter_in_use.get(project)
    if arguments.json:
        models = {work: chosen.get(work, DEFAULT_MODEL) for work in WORKS}
        print_json({"models": models, "adapter": adapter})
        return 0
    for work, what in WORKS.items():
        print_text(f"{work:<11} {one_line(chosen.get(work, DEFAULT_MODEL), 60):<30} {what}")
    if adapter is not None:
        print_text(
            f"Mode `tuned` uses the adapter {one_line(adapter, 60)} and the model it was trained on."
        )
    return 0
