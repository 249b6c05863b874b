"""Chat templates of strangers: what they may do, and what ends with an error of one sentence."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from engine.base.errors import ModelError
from engine.model.gguf_file import read_gguf
from engine.model.llamacpp import writing
from engine.model.llamacpp.writing import ChatRenderer

TALK = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]


def rendered(template: str) -> str:
    return ChatRenderer("strange.gguf", template, end="<e>", start="<s>").render(TALK)


def test_a_template_is_applied() -> None:
    """Loops, conditions, macros and the special tokens work as in the templates of published models."""
    template = (
        "{{ bos_token }}{% macro line(m) %}[{{ m.role }}] {{ m['content'] | trim }}\n{% endmacro %}"
        "{% for m in messages %}{{ line(m) }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    assert rendered(template) == "<s>[user] Hello\n[assistant] Hi.\n[assistant]"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ raise_exception.__globals__['os'].system('true') }}",
        "{{ (messages | attr('__class__')).__base__ }}",
        "{{ '{0.__class__.__mro__}'.format(messages) }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ self.__init__.__globals__ }}",
        "{{ lipsum.__globals__['os'].popen('true') }}",
        "{{ namespace.__init__ }}{{ joiner.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% set x = messages[0].update({'role': 'system'}) %}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends '/etc/passwd' %}",
        "{% for m in messages %}",
        "{{ 1 / 0 }}",
        "{{ messages[0] < 1 }}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        "{{ raise_exception('no system message') }}",
    ],
)
def test_what_it_may_not(template: str) -> None:
    """Attributes that lead out, files, imports, changes, errors and recursion end with an error."""
    with pytest.raises(ModelError, match=r"strange\.gguf"):
        rendered(template)


def test_loops_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A template that loops is stopped, in what it runs and in what is called of it; the process goes on as before."""
    before = sys.gettrace()
    monkeypatch.setattr(writing, "MAX_STEPS", 20_000)
    for template in (
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{% for a in range(9999) %}{{ range(9999) | map('string') | list | length }}{% endfor %}",
    ):
        with pytest.raises(ModelError, match="20,000 steps"):
            rendered(template)
    assert sys.gettrace() is before


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A template that makes a huge text is stopped, and the limit is taken off again."""
    monkeypatch.setattr(writing, "MAX_EXTRA_BYTES", 64 << 20)
    before = resource.getrlimit(resource.RLIMIT_AS)
    doubled = "{% set x = x ~ x %}" * 40
    for template in (
        "{{ 'x' * 10 ** 11 }}",
        "{{ 'x'.center(100000000000) }}",
        "{% set x = bos_token %}" + doubled,
    ):
        with pytest.raises(ModelError):
            rendered(template)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_the_template_of_the_shipped_model(shipped: Path) -> None:
    """The limits are far beyond what the shipped model's template needs for a long conversation."""
    template = read_gguf(shipped).text("tokenizer.chat_template")
    made = ChatRenderer("smollm2", template, end="<e>", start="<s>").render(TALK * 2_000)
    assert made.count("Hello") == 2_000
