"""Applies the chat template of a model to messages, and chooses the next tokens of a reply with llama.cpp's samplers.

A JSON schema that a reply has to follow becomes a grammar, which llama.cpp reads.

A chat template comes from whoever made the file of the model. Templates are programs in Jinja's language. They run in
its immutable sandbox: no attribute whose name begins with an underscore, no unsafe method, no change of what they are
given, no files and no imports, since there is no loader. In addition the number of steps is limited and, on Linux, the
memory.

Not covered: a single operation inside Python that takes long on the memory that is allowed; memory on other systems.
"""

from __future__ import annotations

import ctypes
import json
import platform
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import llama_cpp
import numpy as np
from llama_cpp.llama_chat_format import Jinja2ChatFormatter
from llama_cpp.llama_grammar import SchemaConverter
from numpy.typing import NDArray

from engine.base.errors import ModelError
from engine.model.interface import Sampling

MAX_STEPS = 5_000_000
"""Lines, calls, returns and exceptions of Python that the making of one prompt may take; a chat of 1,000 messages takes
about 50,000."""

MAX_EXTRA_BYTES = 1 << 30
"""Memory beyond what the process has that the making of one prompt may take."""

MAX_REASON_CHARACTERS = 200
"""Number of characters of an error of a template that are shown."""

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\r": "\\r", "\n": "\\n"})
"""Characters that a literal of a grammar escapes."""

_TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""The layout of llama.cpp's `llama_token_data`: a token that may be chosen."""


class ChatRenderer:
    """A chat template, ready to be applied."""

    def __init__(self, name: str, template: str, *, end: str, start: str) -> None:
        """Compiles a template.

        Args:
            name: Name of the model, for errors.
            end: The text of its end-of-text token.
            start: The text of its start token.

        Raises:
            ModelError: It is no template, or one beyond the limits.
        """
        self._name = name
        with self._limited("cannot be used"):
            self._formatter = Jinja2ChatFormatter(template, eos_token=end, bos_token=start)

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Returns the prompt for messages, with the assistant's turn opened.

        Raises:
            ModelError: The template refuses the messages, is wrong, or goes beyond the limits.
        """
        with self._limited("does not take these messages"):
            return str(self._formatter(messages=[dict(message) for message in messages]).prompt)

    @contextmanager
    def _limited(self, problem: str) -> Iterator[None]:
        """Limits what runs in the block, and translates its errors.

        Args:
            problem: What the error says of the chat template, as a verb phrase.

        Raises:
            ModelError: The chat template fails, or takes more steps or memory than it may.
        """
        try:
            with _limited_steps(), _limited_memory():
                yield
        except Exception as error:
            # Whatever a template makes Python stumble over, the fault is in the template.
            why = str(error)[:MAX_REASON_CHARACTERS] or type(error).__name__
            raise ModelError(f"The chat template of {self._name} {problem} ({why}).") from error


@contextmanager
def _limited_steps() -> Iterator[None]:
    """Raises ValueError in the block after `MAX_STEPS` steps of Python: lines, calls, returns and exceptions."""
    steps_left = MAX_STEPS

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        """Counts one step; Python calls it at each, and keeps it as the tracer of the frame."""
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


def grammar_of(schema: str) -> str:
    """Returns the grammar of a JSON schema, given as text; keys and values stand in it as they are, whatever
    characters they have."""
    converter = SchemaConverter(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)
    # The converter's own method leaves backslashes as they are: a quote in a key or a value would end the literal, and
    # the grammar would read the escapes of JSON as its own.
    converter._format_literal = _escaped_literal
    converter.visit(converter.resolve_refs(json.loads(schema), "schema"), "")
    return str(converter.format_grammar())


def _escaped_literal(literal: str) -> str:
    """Returns a text as a literal of a grammar; one that is JSON keeps the escapes that JSON needs, and no others."""
    try:
        text = json.dumps(json.loads(literal), ensure_ascii=False)
    except ValueError:
        text = literal
    return f'"{text.translate(_ESCAPES)}"'


class Sampler:
    """Chooses tokens for one sequence, within a grammar when there is one."""

    def __init__(self, vocab: Any, vocabulary_size: int, settings: Sampling, seed: int) -> None:
        """Builds llama.cpp's chain of samplers, and the grammar if there is one.

        Args:
            vocab: llama.cpp's pointer to the vocabulary of the model.
            vocabulary_size: Number of tokens in the vocabulary.
            settings: Temperature and JSON schema.
            seed: Seed of the random choice.

        Raises:
            ModelError: The grammar cannot be parsed.
        """
        chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        if settings.temperature > 0:
            steps = [
                llama_cpp.llama_sampler_init_temp(settings.temperature),
                llama_cpp.llama_sampler_init_dist(seed),
            ]
        else:
            steps = [llama_cpp.llama_sampler_init_greedy()]
        for step in steps:
            llama_cpp.llama_sampler_chain_add(chain, step)
        self._chain = chain
        self._grammar = None
        if settings.json_schema is not None:
            grammar = grammar_of(settings.json_schema)
            self._grammar = llama_cpp.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")
            if not self._grammar:
                llama_cpp.llama_sampler_free(chain)
                raise ModelError(
                    "The JSON schema is none that llama.cpp can follow.", "Look at it."
                )
        self._candidates = np.zeros(vocabulary_size, dtype=_TOKEN_DATA)

    def pick(self, logits: NDArray[np.float32]) -> int:
        """Returns the next token for one row of logits, shape (tokens,)."""
        token = self._choose(logits, constrained=False)
        if self._grammar is not None:
            # Filtering the whole vocabulary is slow, so the free choice is tried against the grammar first.
            if not self._is_allowed(token):
                token = self._choose(logits, constrained=True)
            llama_cpp.llama_sampler_accept(self._grammar, token)
        return token

    def _choose(self, logits: NDArray[np.float32], *, constrained: bool) -> int:
        """Returns the choice for one row of logits, shape (tokens,), within the grammar if it is `constrained`."""
        candidates = self._candidates
        # The ids are written anew each time, because the samplers sort the candidates.
        candidates["id"] = np.arange(len(candidates), dtype=np.int32)
        candidates["logit"] = logits
        array = _candidate_array(candidates)
        if constrained:
            llama_cpp.llama_sampler_apply(self._grammar, ctypes.byref(array))
        llama_cpp.llama_sampler_apply(self._chain, ctypes.byref(array))
        return int(array.data[array.selected].id)

    def _is_allowed(self, token: int) -> bool:
        """Returns whether the grammar allows a token now."""
        candidates = np.array([(token, 0.0, 0.0)], dtype=_TOKEN_DATA)
        array = _candidate_array(candidates)
        # The grammar sets the logit of a token that it forbids to -inf.
        llama_cpp.llama_sampler_apply(self._grammar, ctypes.byref(array))
        return bool(np.isfinite(array.data[0].logit))

    def close(self) -> None:
        """Frees the native samplers."""
        llama_cpp.llama_sampler_free(self._chain)
        if self._grammar is not None:
            llama_cpp.llama_sampler_free(self._grammar)


def _candidate_array(candidates: NDArray[Any]) -> Any:
    """Returns llama.cpp's view of candidates, an array of `_TOKEN_DATA` of shape (tokens,)."""
    data = candidates.ctypes.data_as(llama_cpp.llama_token_data_p)
    return llama_cpp.llama_token_data_array(
        data=data, size=len(candidates), selected=-1, sorted=False
    )
