"""Applies the chat template of a model file, which comes from whoever made the file, to messages.

Templates are programs in Jinja's language. They run in its immutable sandbox: no attribute whose name begins with an
underscore, no unsafe method, no change of what they are given, no files and no imports, since there is no loader. In
addition the number of steps is limited and, on Linux, the memory.

Not covered: a single operation inside Python that takes long on the memory that is allowed; memory on other systems.
"""

from __future__ import annotations

import platform
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from jinja2 import TemplateError
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

from engine.base.errors import ModelError

MAX_STEPS = 5_000_000
"""Lines of Python that the making of one prompt may take; a chat of 1,000 messages takes about 50,000."""

MAX_EXTRA_BYTES = 1 << 30
"""Memory beyond what the process has that the making of one prompt may take."""


MAX_REASON_CHARACTERS = 200
"""Number of characters of an error of a template that are shown."""


class ChatRenderer:
    """A chat template, ready to be applied."""

    def __init__(self, name: str, template: str, *, end: str, start: str) -> None:
        """Compiles a template.

        Args:
            name: The model's, for errors.
            end: The text of its end-of-text token.
            start: The text of its start token.

        Raises:
            ModelError: It is no template, or one beyond the limits.
        """
        self._name = name
        with self._guarded("cannot be used"):
            self._formatter = Jinja2ChatFormatter(template, eos_token=end, bos_token=start)

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Returns the prompt for messages, with the assistant's turn opened.

        Raises:
            ModelError: The template refuses the messages, is wrong, or goes beyond the limits.
        """
        with self._guarded("does not take these messages"):
            return str(self._formatter(messages=[dict(message) for message in messages]).prompt)

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """Limits what runs in the block, and translates its errors; `what` continues "The chat template of a model"."""
        try:
            with _limited_steps(), _limited_memory():
                yield
        except (
            TemplateError,
            ValueError,
            TypeError,
            ArithmeticError,
            LookupError,
            AttributeError,
            RecursionError,
            MemoryError,
        ) as error:
            why = str(error)[:MAX_REASON_CHARACTERS] or type(error).__name__
            raise ModelError(f"The chat template of {self._name} {what} ({why}).") from error


@contextmanager
def _limited_steps() -> Iterator[None]:
    """Raises ValueError in the block after `MAX_STEPS` lines."""
    steps_left = MAX_STEPS

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        """Counts one line of Python; Python calls it at each, and keeps it as the tracer of the frame."""
        nonlocal steps_left
        steps_left -= 1
        if steps_left < 0:
            raise ValueError(f"it took more than {MAX_STEPS:,} steps")
        return count

    previous_tracer = sys.gettrace()
    sys.settrace(count)
    try:
        yield
    finally:
        sys.settrace(previous_tracer)


@contextmanager
def _limited_memory() -> Iterator[None]:
    """Raises MemoryError in the block beyond `MAX_EXTRA_BYTES`; does nothing where the system does not say what is
    used."""
    if platform.system() != "Linux":
        yield
        return
    used_pages, *_ = Path("/proc/self/statm").read_text().split()
    max_bytes = int(used_pages) * resource.getpagesize() + MAX_EXTRA_BYTES
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    # The process is limited further already.
    if soft != resource.RLIM_INFINITY and soft <= max_bytes:
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
