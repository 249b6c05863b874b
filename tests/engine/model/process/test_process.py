"""The real model process: the results of a model in this process, and the state after a cancel or a kill."""

from __future__ import annotations

import math
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import Cancelled, ModelCrashed, ModelFileError, WorkbenchError
from engine.completeness.model_requests import Score
from engine.completeness.scoring import BoundaryScorer, ItemScore, LogItem, Question, score_block
from engine.model.batched_replies import generate
from engine.model.interface import LoadOptions, Sampling
from engine.model.llamacpp.model import LlamaModel
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Generate, Machine, Tokenize
from engine.model.prompt_files import parse_prompt, prompt_text, tokens_around
from tests.engine.model.tasks import uniform_tasks
from tests.engine.model.weights import SMALL
from tests.engine.project.support import REPOSITORY

OPTIONS = LoadOptions(context=SMALL.context)
TUNED = Question(None)
REMAINING = parse_prompt("remaining", prompt_text("remaining"))
SAFETY = 60.0
"""Seconds after which something hangs; nothing here is timed."""


def talk(number: int, words: int = 10) -> LogItem:
    """A short conversation."""
    asked = f"TURN 1, STEP 1, user chat:\nOrder {number}, please. " + "word " * words
    return LogItem((asked, "\n\nTURN 1, STEP 2, assistant chat:\nSent."), (1,), 0)


BLOCK = [talk(number) for number in range(5)]
MUCH = [talk(number, words=800) for number in range(40)]
"""Many seconds of work on two cores."""


class TestTheSameAnswers:
    def test_scores(self, shared_process: ModelProcess, shallow_weights: Path) -> None:
        """Scores from the process equal those of a model in this process, bit for bit."""
        model = LlamaModel(shallow_weights, OPTIONS, lambda: False)
        base = Question(parse_prompt("base", prompt_text("base")))
        for question in (TUNED, base):
            expected = score_block(BoundaryScorer(model), BLOCK, question)
            model.clear()
            assert shared_process.ask(Score(BLOCK, question)) == expected
        model.close()

    def test_replies(self, shared_process: ModelProcess, shallow_weights: Path) -> None:
        """Replies from the process equal those of a model in this process."""
        model = LlamaModel(shallow_weights, OPTIONS, lambda: False)
        around = tokens_around(REMAINING, model)
        prompt = replace(REMAINING, max_tokens=8)
        prompts = [
            [*around.head, *(t for text in item.texts for t in model.tokenize(text)), *around.tail]
            for item in BLOCK
        ]
        expected = generate(
            model, uniform_tasks(prompts, sampling=Sampling(), max_tokens=8, stop=prompt.stop)
        )
        model.close()
        replies = shared_process.ask(
            Generate([(item.texts, item.pinned_pieces) for item in BLOCK], prompt)
        )
        assert [(reply.text, reply.stopped) for reply in replies] == [
            (reply.text, reply.stopped) for reply in expected
        ]
        assert {reply.note for reply in replies} == {None}


class TestFaults:
    def test_a_file_that_is_no_model(
        self, process: ModelProcess, shallow_weights: Path, tmp_path: Path
    ) -> None:
        """A file that cannot be loaded is refused with its name, and the next one can be loaded."""
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(shallow_weights.read_bytes()[:200_000])
        with pytest.raises(ModelFileError, match=r"broken\.gguf"):
            process.load(broken, OPTIONS)
        process.load(shallow_weights, OPTIONS)
        assert len(process.ask(Score(BLOCK, TUNED))) == 5

    def test_an_abort_in_native_code(
        self, process: ModelProcess, shallow_weights: Path, tmp_path: Path
    ) -> None:
        """A model on which llama.cpp aborts fails the request; no debugger is started, which could wait for ever."""
        path = tmp_path / "nan.gguf"
        weights = bytearray(shallow_weights.read_bytes())
        key = b"llama.attention.layer_norm_rms_epsilon"
        value = weights.index(key) + len(key) + 4  # after the type of the value
        weights[value : value + 4] = struct.pack("<f", math.nan)
        path.write_bytes(weights)
        process.load(path, OPTIONS)
        with pytest.raises(ModelCrashed, match="by SIGABRT"):
            process.ask(Score(BLOCK[:1], TUNED))
        assert "GGML_ASSERT" in process.log_path.read_text().splitlines()[-1]

    def test_what_libraries_print_goes_to_the_log(self, tmp_path: Path) -> None:
        """What Python or native code writes to descriptor 1 goes to the log, not between the answers."""
        noisy = """
import os
from engine.model.process import handlers
from engine.model.process.requests import Machine
from engine.opener import model_process
quiet = handlers.HANDLERS[Machine]
def loud(session, request):
    os.write(1, b"native noise\\n" * 1000)
    print("python noise", flush=True)
    return quiet(session, request)
handlers.HANDLERS[Machine] = loud
model_process.main()
"""
        log = tmp_path / "worker.log"
        process = ModelProcess(log, [sys.executable, "-c", noisy])
        try:
            for _ in range(2):
                assert "CPU" in process.ask(Machine())["system"]
        finally:
            process.close()
        assert log.read_text().count("native noise\n") == 2000
        assert log.read_text().count("python noise\n") == 2


class Interrupted:
    """A request during which something is done as soon as it has begun."""

    def __init__(self, process: ModelProcess, act: Callable[[], None]) -> None:
        self._process, self._act = process, act
        self.read = 0
        self.error: WorkbenchError | None = None

    def score(self, items: list[LogItem]) -> None:
        """Scores; keeps what was raised."""
        try:
            self._process.ask(Score(items, TUNED), self._progress)
        except WorkbenchError as error:
            self.error = error

    def _progress(self, done: int, _note: str) -> None:
        if not self.read:
            self._act()
        self.read = done


class TestInterruptions:
    @pytest.fixture(scope="class")
    def expected(self, process: ModelProcess, shallow_weights: Path) -> list[ItemScore]:
        """The scores of a block from an undisturbed process."""
        process.load(shallow_weights, OPTIONS)
        return process.ask(Score(BLOCK, TUNED))

    def test_cancel(self, process: ModelProcess, expected: list[ItemScore]) -> None:
        """A cancel ends the work; the same process gives the same scores afterwards."""
        whole = sum(map(len, process.ask(Tokenize([text for item in MUCH for text in item.texts]))))
        pid = process.pid
        asked = Interrupted(process, process.cancel)
        asked.score(MUCH)
        assert isinstance(asked.error, Cancelled)
        assert 0 < asked.read < whole / 2
        assert process.pid == pid
        assert process.ask(Score(BLOCK, TUNED)) == expected

    def test_kill(self, process: ModelProcess, expected: list[ItemScore]) -> None:
        """kill -9 fails the request in flight with an error that says so; the next one restarts the process and gives
        the same bits.
        """
        pid = process.pid
        assert pid is not None
        asked = Interrupted(process, lambda: os.kill(pid, signal.SIGKILL))
        asked.score(MUCH)
        assert isinstance(asked.error, ModelCrashed)
        assert "SIGKILL" in asked.error.message
        assert str(process.log_path) in asked.error.hint
        assert process.ask(Score(BLOCK, TUNED)) == expected
        assert process.pid not in (None, pid)

    def test_cancel_of_a_process_that_hangs(
        self, process: ModelProcess, expected: list[ItemScore]
    ) -> None:
        """A process that no longer reacts, here because it is stopped, is ended by a cancel; the next request starts
        another, with the same bits."""
        pid = process.pid
        assert pid is not None

        def stop() -> None:
            os.kill(pid, signal.SIGSTOP)
            process.cancel()

        asked = Interrupted(process, stop)
        asked.score(MUCH)
        assert isinstance(asked.error, Cancelled)
        assert process.ask(Score(BLOCK, TUNED)) == expected
        assert process.pid not in (None, pid)


PARENT = """
import sys
from pathlib import Path
from engine.completeness.model_requests import Score
from engine.model.process.process import ModelProcess
from tests.engine.model.process.test_process import MUCH, OPTIONS, TUNED
process = ModelProcess(Path(sys.argv[2]))
process.load(Path(sys.argv[1]), OPTIONS)
process.ask(Score(MUCH, TUNED), lambda done, note: print(process.pid, flush=True))
"""


@pytest.mark.parametrize(
    "stopped",
    [
        False,
        pytest.param(
            True, marks=pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
        ),
    ],
)
def test_the_model_process_does_not_outlive_the_program(
    stopped: bool, shallow_weights: Path, tmp_path: Path
) -> None:
    """When the program is killed during a request, the model process ends, also one that is stopped."""
    program = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(shallow_weights), str(tmp_path / "log")],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    pid = int(program.stdout.readline())
    if stopped:
        os.kill(pid, signal.SIGSTOP)
    program.kill()
    program.wait()
    program.stdout.close()
    deadline = time.monotonic() + SAFETY
    while _runs(pid):
        assert time.monotonic() < deadline, "the model process outlived the program"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
