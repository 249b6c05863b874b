"""Real servers with the test model in F32, compared with the same weights in process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.conversation import Conversation, Message, render_log
from engine.completeness.scoring import LogItem, log_item
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.client import EndpointClient, parse_address
from engine.model.endpoints.model import EndpointModel
from engine.model.endpoints.probe import probe
from engine.model.endpoints.sender import RequestSender
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Generate, ModelClient
from engine.model.prompt_files import Prompt
from engine.simulate.demo import sample_conversations
from tests.engine.model.endpoints.peers import CONTEXT, llama_cpp_python, transformers_serve
from tests.engine.model.tiny import SPECIAL

pytest.importorskip("sse_starlette", reason="needs llama-cpp-python[server]")
pytest.importorskip("uvicorn", reason="needs transformers[serving]")

OPTIONS = LoadOptions(context=CONTEXT)
PROMPT = Prompt("rest", False, "Log:\n\n", "\n\nTURN", "", "", "", (), 10)


def shortest(count: int) -> list[Conversation]:
    """The shortest conversations of the demo that did not break off, without the instructions of the agent."""
    made = [
        replace(each, messages=each.messages[1:])
        for each in sample_conversations(24)
        if each.truth and each.truth["outcome"] == "complete"
    ]
    return sorted(made, key=lambda one: sum(len(message.content) for message in one.messages))[
        :count
    ]


@pytest.fixture(scope="module")
def items() -> list[LogItem]:
    return [log_item(render_log(one.messages)) for one in shortest(2)]


@pytest.fixture(scope="module")
def in_process(expanded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelProcess]:
    process = ModelProcess(tmp_path_factory.mktemp("log") / "worker.log")
    process.load(expanded, OPTIONS)
    yield process
    process.close()


@pytest.fixture(scope="module")
def llama(expanded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_cpp_python(expanded, tmp_path_factory.mktemp("llama")) as url:
        yield url


@pytest.fixture(scope="module")
def found(llama: str) -> Capabilities:
    """The result of a probe."""
    return probe(parse_address(llama))


@pytest.fixture(scope="module")
def over_http(llama: str, found: Capabilities) -> EndpointModel:
    return asking(llama, found)


def asking(url: str, can: Capabilities) -> EndpointModel:
    made = EndpointModel("peer", RequestSender(EndpointClient(parse_address(url))), can)
    made.load(Path(), OPTIONS)
    return made


def replies(model: ModelClient, items: list[LogItem]) -> list[str]:
    logs = [(item.texts, item.pinned_pieces) for item in items]
    found = model.ask(Generate(logs, PROMPT))
    return [reply.text for reply in found]


class TestLlamaCppPython:
    def test_probe(self, found: Capabilities) -> None:
        """The probe finds that the server takes texts only, and how its replies have fields."""
        assert (found.completions, found.chat) == (True, True)
        assert found.structure in ("json_schema", "json_object")
        assert (found.ids, found.template, found.tokens) == (False, "", "llama-cpp-python")

    def test_replies(
        self, in_process: ModelProcess, over_http: EndpointModel, items: list[LogItem]
    ) -> None:
        """The greedy replies have the same tokens."""
        assert replies(over_http, items) == replies(in_process, items)


@pytest.mark.skipif("WORKBENCH_TEST_PEERS" not in os.environ, reason="set WORKBENCH_TEST_PEERS")
class TestTransformersServe:
    """On a tiny model with random weights, which the server reads at once."""

    @pytest.fixture(scope="class")
    def base(self, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
        """The model as `transformers` reads it and as a GGUF file; it writes ASCII, so that every token is a text."""
        pytest.importorskip("peft", reason="needs the extra train")
        from transformers import AutoModelForCausalLM

        from tests.training.tiny_bases import write_gguf
        from tests.training.tiny_runs import tiny_base

        folder, file = tiny_base(tmp_path_factory.mktemp("transformers"))
        model = AutoModelForCausalLM.from_pretrained(folder)
        head = model.lm_head.weight.data
        head[: len(SPECIAL) + 0x20] = 0
        head[len(SPECIAL) + 0x7F :] = 0
        model.save_pretrained(folder)
        return folder, write_gguf(model, file)

    @pytest.fixture(scope="class")
    def url(
        self, base: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[str]:
        with transformers_serve(base[0], tmp_path_factory.mktemp("serve")) as url:
            yield url

    def test_replies(
        self, url: str, base: tuple[Path, Path], items: list[LogItem], tmp_path: Path
    ) -> None:
        """The greedy replies are the same."""
        can = probe(parse_address(url))
        assert (can.completions, can.tokens) == (True, "")
        model = asking(url, can)
        here = ModelProcess(tmp_path / "worker.log")
        here.load(base[1], OPTIONS)
        talk = [log_item(render_log([Message("user", "Hello?"), Message("assistant", "Hello!")]))]
        assert replies(model, talk) == replies(here, talk)
        here.close()
