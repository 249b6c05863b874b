"""Searches the hub for repositories with GGUF files, and lists the files of one with sizes and checksums.

Text from the hub is untrusted: file names are used as paths only if they are plain names.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.base.errors import HubError, UsageError
from engine.model.catalog_files import PartFile
from engine.model.hub.access import Hub
from engine.model.records import HubFile, HubModel, HubRepository, Recommended, RecommendedSet

RECOMMENDED = Path(__file__).parents[1] / "recommended.toml"
"""The file with recommended models, in sets by rising memory."""

_GB = 1_000_000_000
"""Bytes of a gigabyte, as makers of memory count."""

MAX_REPOSITORIES = 50
"""Most repositories that a search returns."""

_PLAIN_PATH = re.compile(r"(?:[A-Za-z0-9][\w.+-]*/)*[A-Za-z0-9][\w.+-]*\.gguf")
"""A path in a repository that is safe as a path on disk: of plain names, none of which begins with a dot."""

_SPLIT_PATH = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")
"""The path of one file of a split model, like `a/model-00001-of-00003.gguf`: its stem, its number and how many there
are."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
"""A SHA-256 in hex."""

_COMMIT = re.compile(r"[0-9a-f]{40,64}")
"""The hash of a commit in hex."""

FITTING_SHARE = 0.9
"""Share of a set's memory that a machine must report. Makers count in units of 1000 and keep a part for the display or
the firmware."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""OWNER/NAME of a repository."""


def recommended_sets(memory: int | None = None) -> list[RecommendedSet]:
    """Returns the recommended sets, that for the smallest machines first.

    The largest set that is meant for a machine with so much memory is marked with `here`.

    Args:
        memory: Bytes of memory of this machine; None if unknown.
    """
    sets = [
        RecommendedSet(
            int(content["memory"] * _GB),
            tuple(
                Recommended(**{**model, "size": int(model["size"] * _GB)})
                for model in content["model"]
            ),
        )
        for content in tomllib.loads(RECOMMENDED.read_text("utf-8"))["set"]
    ]
    fitting = [
        models for models in sets if memory is not None and memory >= models.memory * FITTING_SHARE
    ]
    return [replace(models, here=models in fitting[-1:]) for models in sets]


def search(hub: Hub, text: str, limit: int = 20) -> list[HubModel]:
    """Returns repositories with GGUF files whose name holds these words, most downloaded first.

    Raises:
        ModelError: The hub cannot be asked.
        NetworkRefused: A switch forbids the network.
    """
    with hub.api_session() as api:
        repositories = api.list_models(
            search=text,
            filter="gguf",
            sort="downloads",
            limit=min(limit, MAX_REPOSITORIES),
            expand=["downloads", "likes", "gated", "tags", "lastModified"],
        )
        return [_hub_model(info) for info in repositories if _REPOSITORY.fullmatch(str(info.id))]


def look_at(hub: Hub, repository: str, revision: str | None = None) -> HubRepository:
    """Returns the GGUF files of a repository.

    Args:
        revision: Branch, tag or commit; None for what the hub shows.

    Raises:
        ModelError: The hub cannot be asked, or has no such repository.
        NetworkRefused: A switch forbids the network.
        UsageError: It is no name of a repository.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise UsageError(
            f"{repository!r} is no name of a repository.", "Say OWNER/NAME, as the hub shows it."
        )
    with hub.api_session(repository) as api:
        info = api.model_info(repository, revision=revision, files_metadata=True)
        if not _COMMIT.fullmatch(info.sha or ""):
            raise HubError(f"{hub.host} does not say which commit of {repository} this is.")
        ggufs = [
            sibling for sibling in info.siblings or () if str(sibling.rfilename).endswith(".gguf")
        ]
        parts = [part for sibling in ggufs if (part := _pullable_part(sibling)) is not None]
        files = sorted(_group_parts(parts), key=lambda file: (file.size, file.name))
        card = info.card_data.get("license") if info.card_data else None
        return HubRepository(
            name=repository,
            revision=info.sha,
            license=_license(card if isinstance(card, str) else None, info.tags),
            gated=bool(info.gated),
            files=tuple(files),
            left_out=len(ggufs) - sum(len(file.parts) for file in files),
        )


def _hub_model(info: Any) -> HubModel:
    """Returns a repository of a search."""
    return HubModel(
        name=str(info.id),
        gated=bool(info.gated),
        license=_license(None, info.tags),
        downloads=int(info.downloads or 0),
        likes=int(info.likes or 0),
        changed=info.last_modified.date().isoformat() if info.last_modified else "",
    )


def _license(card: str | None, tags: Iterable[str] | None) -> str:
    """Returns the license of a repository: that of its card, else that of its tags; empty if there is none."""
    named = (tag.removeprefix("license:") for tag in tags or () if tag.startswith("license:"))
    return card or next(named, "")


def _pullable_part(sibling: Any) -> PartFile | None:
    """Returns a file that can be pulled: of a plain name, with a size and a checksum."""
    lfs = sibling.lfs
    path, sha256 = str(sibling.rfilename), str(lfs.sha256) if lfs else ""
    size = int(lfs.size) if lfs else None
    if not _PLAIN_PATH.fullmatch(path) or not _SHA256.fullmatch(sha256) or not size or size < 0:
        return None
    return PartFile(path, size, sha256)


def _group_parts(parts: Iterable[PartFile]) -> list[HubFile]:
    """Returns files, those of a split model together; one whose parts are not all there is left out."""
    files: list[HubFile] = []
    # Stem and number of parts -> the parts by their numbers.
    split_models: dict[tuple[str, int], dict[int, PartFile]] = {}
    for part in parts:
        split_path = _SPLIT_PATH.match(part.path)
        if split_path:
            model = split_path["stem"], int(split_path["count"])
            split_models.setdefault(model, {})[int(split_path["number"])] = part
        else:
            files.append(HubFile((part,)))
    for (_, count), model_parts in split_models.items():
        numbers = sorted(model_parts)
        if numbers == list(range(1, count + 1)):
            files.append(HubFile(tuple(model_parts[number] for number in numbers)))
    return files
