"""Searches the hub for repositories with GGUF files, and lists the files of one with sizes and checksums.

Text from the hub is untrusted: file names are used as paths only if they are plain names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from engine.base.errors import HubError, UsageError
from engine.model.catalog_files import HubFile
from engine.model.hub.access import Hub
from engine.model.records import HubModel, HubRepository

MAX_REPOSITORIES = 50
"""Most repositories that a search returns."""

_PLAIN_PATH = re.compile(r"(?:[A-Za-z0-9][\w.+-]*/)*[A-Za-z0-9][\w.+-]*\.gguf")
"""A path in a repository that is safe as a path on disk: of plain names, none of which begins with a dot."""

_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
"""The end of the path of one of several files that make a model, like `a/model-00001-of-00003.gguf`."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
"""A SHA-256 in hex."""

_COMMIT = re.compile(r"[0-9a-f]{40,64}")
"""The hash of a commit in hex."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""OWNER/NAME of a repository."""


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


def read_repository(hub: Hub, repository: str, revision: str | None = None) -> HubRepository:
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
        ggufs = [file for file in info.siblings or () if str(file.rfilename).endswith(".gguf")]
        files = [file for gguf in ggufs if (file := _pullable_file(gguf)) is not None]
        card = info.card_data.get("license") if info.card_data else None
        return HubRepository(
            name=repository,
            revision=info.sha,
            license=_license(card if isinstance(card, str) else None, info.tags),
            gated=bool(info.gated),
            files=tuple(sorted(files, key=lambda file: (file.size, file.path))),
            left_out=len(ggufs) - len(files),
        )


def _hub_model(info: Any) -> HubModel:
    """Returns the record of a repository that a search found."""
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


def _pullable_file(listed_file: Any) -> HubFile | None:
    """Returns the record of a file that can be pulled: a whole model of a plain name, with a size and a checksum; None
    for any other file."""
    lfs = listed_file.lfs
    path, sha256 = str(listed_file.rfilename), str(lfs.sha256) if lfs else ""
    size = int(lfs.size) if lfs else None
    if not _PLAIN_PATH.fullmatch(path) or _SPLIT.search(path):
        return None
    if not _SHA256.fullmatch(sha256) or not size or size < 0:
        return None
    return HubFile(path, size, sha256)
