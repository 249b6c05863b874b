"""`python -m training RUN_DIR`: trains the run of a directory, or resumes it.

On several GPUs `workbench train` starts it by `accelerate launch -m training RUN_DIR`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import traceback
import warnings
from pathlib import Path

from engine import network_guard
from engine.errors import WorkbenchError
from engine.run_directory.config import ConfigError, TrainConfig
from engine.run_directory.events import EventLog, RunDirectory, is_out_of_memory, locked

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 143
_LOCK_SECONDS = 2.0


def main(words: list[str]) -> int:
    """Trains one run; returns 0 when an adapter was made."""
    # What libraries will change some day, a person who trains cannot act on.
    warnings.filterwarnings("ignore", category=FutureWarning)
    if len(words) != 1 or not Path(words[0]).is_dir():
        print("usage: python -m training RUN_DIR", file=sys.stderr)  # noqa: T201
        return USAGE
    run = RunDirectory(Path(words[0]).resolve())
    logging.basicConfig(level=logging.WARNING)
    # Nothing is downloaded: weights and tokenizer are on disk.
    network_guard.install_in_child()
    os.environ.update(TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1")
    # Threads that spin while they wait become very slow when another process uses the machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if os.environ.get("RANK", "0") != "0":
        # One of several processes of `accelerate launch`: the first one holds the lock and writes the events.
        return _run(run, EventLog(Path(os.devnull)))
    # A reader that checks whether the run is running holds the lock for a moment.
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        with locked(run) as had:
            if had:
                with contextlib.suppress(FileNotFoundError):
                    run.stop.unlink()
                return _run(run, EventLog(run.events))
        if time.monotonic() > until:
            print("Another process is training this run.", file=sys.stderr)  # noqa: T201
            return FAILED
        time.sleep(0.05)


def _run(run: RunDirectory, events: EventLog) -> int:
    try:
        config = TrainConfig.load(run.config)
        from training.loop import Interrupted
        from training.run import train

        try:
            train(run, config, events)
        except Interrupted:
            return INTERRUPTED
    except ConfigError as error:
        events.write("error", message=f"{error}.", hint="Correct config.json.")
        return FAILED
    except ImportError as error:
        events.write(
            "error",
            message=f"{error.name} is not installed.",
            hint="pip install 'conversation-workbench[train]'",
        )
        return FAILED
    except WorkbenchError as error:
        traceback.print_exc()
        events.write("error", message=error.message, hint=error.hint)
        return FAILED
    except (RuntimeError, MemoryError, OSError, ValueError) as error:
        traceback.print_exc()
        events.write("error", **_message_of(error))
        return FAILED
    finally:
        events.close()
    return DONE


def _message_of(error: Exception) -> dict[str, str]:
    text = str(error).strip() or type(error).__name__
    if isinstance(error, MemoryError) or is_out_of_memory(text):
        return {
            "message": "Out of memory.",
            "hint": "Lower `rows`, then `max_tokens`; or set `recompute`, then `four_bit`.",
        }
    return {"message": text.splitlines()[0], "hint": "log.txt in the run directory has the rest."}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
