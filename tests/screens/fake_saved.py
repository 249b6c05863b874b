"""What a project remembers of its list, and its exports, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import ProjectError
from engine.filters import ListQuery
from engine.services.exports import ExportKind


class FakeSaved:
    """The port `Saved` as plain attributes."""

    def __init__(self) -> None:
        self.kept_filters: dict[str, str] = {}
        self.kept_columns: list[str] | None = None
        self.kept_view: tuple[ListQuery, int | None] = (ListQuery(), None)

    def filters(self) -> dict[str, str]:
        return dict(sorted(self.kept_filters.items()))

    def save_filter(self, name: str, text: str) -> None:
        self.kept_filters[name] = text

    def delete_filter(self, name: str) -> None:
        self.kept_filters.pop(name, None)

    def columns(self) -> list[str] | None:
        return self.kept_columns

    def save_columns(self, columns: Sequence[str]) -> None:
        self.kept_columns = list(columns)

    def view(self) -> tuple[ListQuery, int | None]:
        return self.kept_view

    def save_view(self, query: ListQuery, conversation_id: int | None) -> None:
        self.kept_view = (query, conversation_id)


class FakeExports:
    """The port `Exports`: what would have been written, by path."""

    def __init__(self) -> None:
        self.written: dict[str, tuple[ExportKind, list[int]]] = {}

    def export(self, kind: ExportKind, ids: Sequence[int], path: str) -> int:
        if path in self.written:
            raise ProjectError(f"{path} is there already.", "Choose another name.")
        self.written[path] = (kind, list(ids))
        return len(ids)
