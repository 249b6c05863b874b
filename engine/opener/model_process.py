"""The model process, `python -m engine.opener.model_process`: answers requests of all subjects that need a local
model. It is started here because `engine.opener` alone knows all subjects."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from typing import BinaryIO

from engine.base import network_guard

PR_SET_PDEATHSIG = 1
"""Option of `prctl` from `linux/prctl.h`: sets the signal that this process gets when the thread that started it
ends."""

NICE = 5
"""Niceness of the model process: it yields to other processes, and on an idle machine it loses nothing."""


def become_model_process() -> BinaryIO:
    """Makes this process a model process: its output, environment, signals, niceness, logging and network guard.

    Returns:
        The stream to which answers are written: a duplicate of descriptor 1. Descriptor 1 itself then leads to standard
        error, so that whatever a library prints goes to the log and never between the answers.
    """
    answers: BinaryIO = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # OpenMP's threads spin at every barrier, and when anything else wants a core they spin for nothing. Measured on 2
    # cores beside one busy process: prompts 98 tokens/s spinning and 493 waiting, replies 8 and 241. On an idle machine
    # waiting costs 3% on prompts and 40% on replies.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # Where llama.cpp aborts, each of its threads starts a debugger for a backtrace, and two of them can wait for each
    # other for ever.
    os.environ["GGML_NO_BACKTRACE"] = "1"
    if sys.platform == "linux":
        # The end of the program closes standard input, but a process that is stopped or hangs does not notice.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The screens take precedence: their work takes milliseconds, that of the model minutes.
    os.nice(NICE)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    network_guard.install_in_child()
    return answers


def main() -> None:
    """Serves requests from standard input until it closes."""
    answers = become_model_process()
    # llama.cpp reads the environment when it is loaded, so nothing native may be loaded before
    from engine.completeness import model_requests as completeness
    from engine.model.process import handlers as model
    from engine.model.process.session import Server
    from engine.trees import model_requests as trees

    handlers = {**model.HANDLERS, **completeness.handlers(), **trees.HANDLERS}
    Server(sys.stdin.buffer, answers, handlers).serve()


if __name__ == "__main__":
    main()
