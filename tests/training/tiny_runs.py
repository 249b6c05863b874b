"""Run directories that train in seconds: a tiny base and short logs."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sys
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from engine.training.config import TrainConfig
from engine.training.events import read_events
from engine.training.run_directory import RunDirectory
from tests.engine.model.tiny import SPECIAL
from tests.training.tiny_bases import tiny_model, write_gguf
from training.__main__ import main

STEPS = 6
CPU_ONLY = {"CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"}


def item(number: int, turns: int) -> dict[str, Any]:
    """A line of a data file: a log of this many turns that begins with a request and ends with a courtesy."""
    rng = Random(number)
    texts: list[str] = []
    boundaries: list[int] = []
    for turn in range(turns):
        for role in ("user", "assistant"):
            last = turn + 1 == turns and role == "assistant"
            said = "bye" if last else rng.choice(["yes", "and", "more", "what"])
            head = f"TURN {turn + 1}, STEP {len(texts) + 1}, {role} chat:\n{said} {number}"
            texts.append(head if not texts else "\n\n" + head)
        boundaries.append(len(texts) - 1)
    return {"id": f"log-{number}", "texts": texts, "boundaries": boundaries, "kept": 0}


def tiny_base(folder: Path) -> tuple[Path, Path]:
    """A tiny base as a Hugging Face folder and as a GGUF file, with the same tokens: one for each byte."""
    hub = folder / "base"
    model = tiny_model("llama")
    model.save_pretrained(hub)
    # The letters that stand for bytes, in the order of the bytes.
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    letters = [chr(byte) if byte in kept else chr(next(others)) for byte in range(256)]
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")  # as llama.cpp does for this kind
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{SPECIAL[1]} $A", special_tokens=[(SPECIAL[1], 1)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=SPECIAL[1], eos_token=SPECIAL[2], unk_token=SPECIAL[0]
    ).save_pretrained(hub)
    return hub, write_gguf(model, folder / "base.gguf")


def tiny_run(folder: Path, **fields: Any) -> RunDirectory:
    """A run of `STEPS` steps on a tiny base, ready to start."""
    folder.mkdir(parents=True, exist_ok=True)
    base, _ = tiny_base(folder)
    run = RunDirectory(folder)
    # Some so long that a step is read in parts.
    items = [item(number, 2 if number % 3 else 8) for number in range(18)]
    for path, part in ((run.train, items[:12]), (run.valid, items[12:])):
        path.write_text("".join(json.dumps(one) + "\n" for one in part), "utf-8")
    given: dict[str, Any] = {
        "batch": 4,
        "epochs": 1.8,  # the last step is in the second one, which is not whole
        "valid_every": 2,
        "precision": "f32",
        "max_tokens": 400,
    }
    given |= {"rank": 4, "alpha": 8, "learning_rate": 5e-3, "threads": 1} | fields
    TrainConfig(base=str(base), **given).save(run.config)
    return run


def start(run: RunDirectory, *, largest_file: int | None = None) -> Trainer:
    """The process of a run. It is forked from one that has imported the training libraries, which takes five seconds of
    a processor each time; `launched` starts one from nothing.

    Args:
        largest_file: Bytes beyond which no file of it can grow, as on a full disk.
    """
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["training.run"])
    process = server.Process(target=_train, args=(str(run.path), str(run.log), largest_file))
    process.start()
    return Trainer(process)


@dataclass(frozen=True, slots=True)
class Trainer:
    """A forked trainer with the methods of `subprocess.Popen` that tests use."""

    process: ForkServerProcess

    def send_signal(self, number: int) -> None:
        """Sends a signal to the process."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self) -> int | None:
        """Waits for the end of the process; returns its exit code."""
        self.process.join()
        return self.process.exitcode


def _train(path: str, log: str, largest_file: int | None) -> None:
    if largest_file is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(CPU_ONLY)
    sys.exit(main([path]))


def finished(run: RunDirectory) -> int | None:
    """Runs it to its end and returns the exit code."""
    return start(run).wait()


def events(run: RunDirectory, kind: str) -> list[dict[str, Any]]:
    """The events of one kind so far."""
    return [one for one in read_events(run.events)[0] if one["event"] == kind]
