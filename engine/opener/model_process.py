"""`python -m engine.opener.model_process`: the model process, which answers the requests of all subjects."""

from __future__ import annotations

import sys

from engine.model.process.startup import take_over_output


def main() -> None:
    """Serves requests from standard input until it closes."""
    answers = take_over_output()
    # Only now may anything native be loaded.
    from engine.completeness import model_requests as completeness
    from engine.model.process import handlers as model
    from engine.model.process.session import Server
    from engine.trees import model_requests as trees

    handlers = {**model.HANDLERS, **completeness.handlers(), **trees.HANDLERS}
    Server(sys.stdin.buffer, answers, handlers).serve()


if __name__ == "__main__":
    main()
