"""`workbench offline`: the setting that keeps a project off the network."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from engine.project.network import NetworkService
from engine.project.project import Project
from workbench.narration import print_json, print_text


def offline_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `offline`."""
    parser.add_argument("project")
    parser.add_argument(
        "wanted",
        nargs="?",
        choices=["on", "off"],
        help="on: it uses no network, not even for endpoints and hubs that you named (default: show the setting)",
    )


def offline(arguments: argparse.Namespace) -> int:
    """Prints whether a project stays offline, or changes that."""
    wanted: str | None = arguments.wanted
    with (
        Project.open(Path(arguments.project), read_only=wanted is None, upgrade=True) as project,
        closing(NetworkService(project)) as network,
    ):
        if wanted is not None:
            network.stay_offline(wanted == "on")
        stays, others = network.stays_offline(), network.others()
    if arguments.json:
        print_json({"offline": stays, "others": others})
        return 0
    if stays:
        print_text("This project uses no network, not even for endpoints and hubs that you named.")
    else:
        print_text(
            "This project uses the network only for endpoints and hubs that you named, while you ask for them."
        )
    if others:
        print_text(f"No network is used here at all: {' and '.join(others)} {_is(others)} on.")
    return 0


def _is(some: list[str]) -> str:
    return "is" if len(some) == 1 else "are"
