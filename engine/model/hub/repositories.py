"""Searches the hub for repositories with GGUF files, and lists the files of one with sizes and checksums.

Text from the hub is untrusted: file names are used as paths only if they are plain names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.base.errors import HubError, NotFound, UsageError
from engine.model.hub.access import Hub
from engine.model.manifest import PartFile

MOST_FOUND = 50
_PLAIN = re.compile(r"(?:[A-Za-z0-9][\w.+-]*/)*[A-Za-z0-9][\w.+-]*\.gguf")
_SPLIT = re.compile(r"^(?P<stem>.+)-(?P<nth>\d{5})-of-(?P<all>\d{5})\.gguf$")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A repository that was found.

    Attributes:
        gated: Whether its owners hand it out on request only.
        licence: As its tags name it; empty where they name none.
        downloads: In the last month, as the hub counts.
        changed: Date of its last change, ISO 8601; empty where the hub does not say.
    """

    name: str
    gated: bool
    licence: str
    downloads: int
    likes: int
    changed: str


@dataclass(frozen=True, slots=True)
class HubFile:
    """One model of a repository: a file, or the parts of a split one in order."""

    parts: tuple[PartFile, ...]

    @property
    def name(self) -> str:
        """Place of the first part in the repository."""
        return self.parts[0].path

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size for part in self.parts)


@dataclass(frozen=True, slots=True)
class HubRepository:
    """The GGUF files of a repository at one commit, smallest first.

    Attributes:
        left_out: How many more there are whose name, checksum or parts are not such that they can be pulled.
    """

    name: str
    revision: str
    licence: str
    gated: bool
    files: tuple[HubFile, ...]
    left_out: int = 0

    def file(self, wanted: str | None) -> HubFile:
        """The file that a person means: by its place, or by a piece of it such as `Q4_K_M`.

        Raises:
            UsageError: None or several could be meant.
        """
        if not self.files:
            raise UsageError(
                f"{self.name} has no GGUF file that can be pulled.",
                "Look for a repository whose name ends in GGUF.",
            )
        meant = [
            file
            for file in self.files
            if wanted is None or file.name == wanted or wanted.lower() in file.name.lower()
        ]
        exact = [file for file in meant if wanted is not None and file.name == wanted]
        if len(exact or meant) == 1:
            return (exact or meant)[0]
        listed = ", ".join(f"{file.name} ({file.size / 1e9:.1f} GB)" for file in self.files)
        if not meant:
            raise NotFound(f"{self.name} has no file {wanted!r}.", f"It has {listed}.")
        raise UsageError(f"{self.name} has {len(meant)} such files.", f"Name one of {listed}.")


def search(hub: Hub, text: str, limit: int = 20) -> list[HubModel]:
    """Repositories with GGUF files whose name holds these words, most downloaded first.

    Raises:
        ModelError: The hub cannot be asked.
        NetworkRefused: A switch forbids the network.
    """
    with hub.asked() as api:
        found = api.list_models(
            search=text,
            filter="gguf",
            sort="downloads",
            limit=min(limit, MOST_FOUND),
            expand=["downloads", "likes", "gated", "tags", "lastModified"],
        )
        return [_model(one) for one in found if _REPOSITORY.fullmatch(str(one.id))]


def look_at(hub: Hub, repository: str, revision: str | None = None) -> HubRepository:
    """The GGUF files of a repository.

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
    with hub.asked(repository) as api:
        info = api.model_info(repository, revision=revision, files_metadata=True)
        if not re.fullmatch(r"[0-9a-f]{40,64}", info.sha or ""):
            raise HubError(f"{hub.host} does not say which commit of {repository} this is.")
        ggufs = [one for one in info.siblings or () if str(one.rfilename).endswith(".gguf")]
        parts = [part for one in ggufs if (part := _part(one)) is not None]
        files = sorted(_grouped(parts), key=lambda file: (file.size, file.name))
        card = info.card_data.get("license") if info.card_data else None
        return HubRepository(
            name=repository,
            revision=info.sha,
            licence=_licence(card if isinstance(card, str) else None, info.tags),
            gated=bool(info.gated),
            files=tuple(files),
            left_out=len(ggufs) - sum(len(file.parts) for file in files),
        )


def _model(info: Any) -> HubModel:
    return HubModel(
        name=str(info.id),
        gated=bool(info.gated),
        licence=_licence(None, info.tags),
        downloads=int(info.downloads or 0),
        likes=int(info.likes or 0),
        changed=info.last_modified.date().isoformat() if info.last_modified else "",
    )


def _licence(card: str | None, tags: Iterable[str] | None) -> str:
    named = (tag.partition(":")[2] for tag in tags or () if tag.startswith("license:"))
    return card or next(named, "")


def _part(sibling: Any) -> PartFile | None:
    """A file that can be pulled: of a plain name, with a size and a checksum."""
    lfs = sibling.lfs
    path, sha256 = str(sibling.rfilename), str(lfs.sha256) if lfs else ""
    size = int(lfs.size) if lfs else None
    if not _PLAIN.fullmatch(path) or not _SHA256.fullmatch(sha256) or not size or size < 0:
        return None
    return PartFile(path, size, sha256)


def _grouped(parts: Iterable[PartFile]) -> list[HubFile]:
    """Files, those of a split model together; one whose parts are not all there is left out."""
    whole, split = [], dict[tuple[str, int], dict[int, PartFile]]()
    for part in parts:
        found = _SPLIT.match(part.path)
        if found:
            split.setdefault((found["stem"], int(found["all"])), {})[int(found["nth"])] = part
        else:
            whole.append(HubFile((part,)))
    for (_, count), found_parts in split.items():
        if sorted(found_parts) == list(range(1, count + 1)):
            whole.append(HubFile(tuple(found_parts[nth] for nth in sorted(found_parts))))
    return whole
