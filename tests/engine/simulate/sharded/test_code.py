"""Code tasks: a function is extracted from a reply, renamed as the tests call it, and run against all of them."""

from __future__ import annotations

import base64
import json
import pickle
import platform
import zlib
from typing import Any

import pytest

from engine.base.errors import BadInstruction
from engine.simulate.sharded.code import BadTests, callable_as, function_in, unpack
from engine.simulate.sharded.task import Task
from tests.engine.simulate.sharded.bound import bound, score

on_linux = pytest.mark.skipif(
    platform.system() != "Linux", reason="code is run on Linux only, elsewhere it is refused"
)


def packed(value: Any) -> str:
    """Private tests as LiveCodeBench packs them."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(value)))).decode()


def case(given: str, wanted: str) -> dict[str, str]:
    """A test case."""
    return {"input": given, "output": wanted, "testtype": "functional"}


def competition(public: Any, private: Any = "", name: str = "add", **keys: Any) -> Task:
    """A LiveCodeBench task."""
    record = {
        "source": "lcb_easy",
        "question_content": "Add two numbers.",
        "starter_code": "class Solution:\n    def add(self, a: int, b: int) -> int:\n        ",
        "public_test_cases": public,
        "private_test_cases": private,
        "metadata": {"func_name": name},
        **keys,
    }
    return bound("code", **record)


class TestExtraction:
    def test_the_last_top_level_function_of_the_last_block(self) -> None:
        """The last top-level function of the last block is extracted with the block's imports."""
        reply = (
            "First:\n```python\ndef old(): pass\n```\nBetter:\n```python\nimport math\nfrom os import path\n"
            "def helper(x):\n    return x\n\n@cached\ndef new(a):\n    def inner():\n        return 1\n"
            "    return math.sqrt(a)\n\nprint(new(4))\n```\nDone."
        )
        assert function_in(reply) == (
            "import math\nfrom os import path\n\n@cached\ndef new(a):\n    def inner():\n        return 1\n"
            "    return math.sqrt(a)"
        )

    @pytest.mark.parametrize(
        ("reply", "function"),
        [
            ("```\ndef f(): return 1\n```", "def f(): return 1"),
            ("```py\ndef f(): return 1\n```\n```text\nnot code\n```", "def f(): return 1"),
            ("Here it is:\ndef f():\n    return 1", "def f():\n    return 1"),
            ("```python\ndef f(:\n```", ""),
            ("I would define a function.", ""),
        ],
    )
    def test_with_and_without_fences(self, reply: str, function: str) -> None:
        """Blocks without a function are skipped; a function without a fence is found; invalid code gives none."""
        assert function_in(reply) == function

    def test_the_tests_call_the_function_whatever_its_name(self) -> None:
        """A function that calls itself by its own name still works after the renaming."""
        module = callable_as("def fact(n):\n    return n * fact(n - 1) if n else 1", "factorial")
        space: dict[str, Any] = {}
        exec(module, space)
        assert space["factorial"](5) == 120


class TestPackedTests:
    @pytest.mark.parametrize("pack", [lambda value: value, json.dumps, packed])
    def test_all_ways_of_packing_give_the_same_cases(self, pack: Any) -> None:
        """Tests as a list, as JSON, and as base64 of zlib of a pickle of JSON are the same cases."""
        cases = [case("1\n2", "3"), case('"é"', "null")]
        assert unpack(pack(cases)) == cases

    @pytest.mark.parametrize(
        "bad",
        [
            pytest.param(b"cos\nsystem\n(S'touch pwned'\ntR.", id="os.system"),
            pytest.param(
                b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.", id="builtins.eval"
            ),
            pytest.param(b"\x80\x04Pid\n.", id="persistent id"),
            pytest.param(b"no pickle", id="no pickle"),
        ],
    )
    def test_a_pickle_runs_nothing(self, bad: bytes, tmp_path: Any, monkeypatch: Any) -> None:
        """A pickle that refers to a function is refused without importing it."""
        monkeypatch.chdir(tmp_path)
        with pytest.raises(BadTests):
            unpack(base64.b64encode(zlib.compress(bad)).decode())
        assert list(tmp_path.iterdir()) == []


@on_linux
class TestScore:
    def test_every_public_and_private_test_must_pass(self) -> None:
        """Right on the public test and wrong on a private one is wrong."""
        task = competition(
            json.dumps([case("1\n2", "3")]), packed([case("5\n5", "10"), case("-1\n1", "0")])
        )
        assert score(task, "def add(a, b):\n    return a + b") == 1.0
        assert score(task, "def plus(x, y):\n    return x + y") == 1.0
        assert score(task, "def add(a, b):\n    return 3") == 0.0
        assert score(task, "def add(a, b):\n    return a + b if a >= 0 else None") == 0.0

    def test_a_completion_gets_the_imports_of_its_prompt(self) -> None:
        """HumanEval: what the prompt imports may be used."""
        task = bound(
            "code",
            source="humaneval",
            prompt='import hashlib\n\ndef digest(text: str) -> str:\n    """The digest."""\n',
            public_test_cases=json.dumps([case('""', '"d41d8cd98f00b204e9800998ecf8427e"')]),
            private_test_cases="",
            metadata={"func_name": "digest"},
        )
        assert "def digest" in task.full_prompt()
        assert score(task, "def f(text):\n    return hashlib.md5(text.encode()).hexdigest()") == 1.0

    @pytest.mark.parametrize(
        "change",
        [
            {"source": "elsewhere"},
            {"metadata": {}},
            {"public_test_cases": "[]"},
            {"public_test_cases": [case("not json", "1")]},
            {"private_test_cases": "####"},
        ],
    )
    def test_bad_keys_are_refused(self, change: dict[str, Any]) -> None:
        """An instruction that cannot be scored is refused when it is read."""
        with pytest.raises(BadInstruction):
            competition(**{"public": [case("1\n2", "3")], **_renamed(change)})


def _renamed(change: dict[str, Any]) -> dict[str, Any]:
    short = {"public_test_cases": "public", "private_test_cases": "private"}
    return {short.get(name, name): value for name, value in change.items()}
