"""The search in views that draw their own lines: searches on another thread, and goes from hit to hit."""

from __future__ import annotations

from collections.abc import Callable

from textual.message import Message
from textual.scroll_view import ScrollView

from engine.base.errors import WorkbenchError
from screens.widgets.background import background
from screens.widgets.text.finding import Hit, Hits, Pattern


class FindingView(ScrollView, inherit_bindings=False):
    """Base of a view with search. Subclasses define what is searched and how a hit is scrolled into view."""

    class Found(Message):
        """What is looked for was found, or the cursor went to another hit; `words` is the count to show."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.hits = Hits()
        self.hit: int | None = None
        self._pattern: Pattern | None = None
        self._search = 0

    def look_for(self, pattern: Pattern | None, *, jump: bool = False) -> None:
        """Highlights what a pattern finds, here and in what is shown later; None highlights nothing.

        `jump` goes to the first hit from here.
        """
        self._pattern = pattern
        self.look_again(jump=jump)

    def look_again(self, *, jump: bool = False) -> None:
        """Looks for the same in what is shown now."""
        self._search += 1
        search = self._search
        work = self.search(self._pattern) if self._pattern is not None else None
        if work is None:
            self._arrived(Hits(), jump=False)
            return

        def arrived(hits: Hits) -> None:
            if search == self._search:
                self._arrived(hits, jump=jump)

        background(self, work, arrived, self.search_failed, group="find")

    def _arrived(self, hits: Hits, *, jump: bool) -> None:
        self.hits = hits
        self.hit = hits.first_from(self.place()) if jump and hits.places else None
        self.hits_changed()
        if self.hit is not None:
            self.show_hit()
        self._post_found()

    def go_to_hit(self, delta: int) -> None:
        """Goes to the next (1) or the previous (-1) hit, from the last one to the first."""
        if self.hits.places:
            self.hit = self.hits.step(self.hit, delta, self.place())
            self.show_hit()
            self._post_found()

    def _post_found(self) -> None:
        self.refresh()
        self.post_message(self.Found("" if self._pattern is None else self.hits.words(self.hit)))

    def reveal(self, line: int) -> None:
        """Scrolls to a line unless it is in sight."""
        top, height = round(self.scroll_offset.y), self.size.height
        if not top <= line < top + height - 1:
            self.scroll_to(y=max(0, line - height // 3), animate=False)

    # To be defined by a subclass

    def search(self, pattern: Pattern) -> Callable[[], Hits] | None:
        """The search, to be run on another thread; None when there is nothing to look through."""
        raise NotImplementedError

    def search_failed(self, error: WorkbenchError) -> None:
        """A search went wrong."""
        raise NotImplementedError

    def place(self) -> Hit:
        """Where the search begins, as an empty hit."""
        raise NotImplementedError

    def hits_changed(self) -> None:
        """There are other hits than before."""

    def show_hit(self) -> None:
        """Brings the current hit into sight."""
        raise NotImplementedError
