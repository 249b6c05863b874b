"""Puts together what answers the requests of all subjects, in the model process and at endpoints.

`python -m engine.opener.model_process` is the model process.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from engine.model.process.startup import take_over_output

if TYPE_CHECKING:
    from engine.model.endpoints.client import EndpointHandlers


def endpoint_handlers() -> EndpointHandlers:
    """Returns the handlers of the subjects for endpoints; those of `engine.model` itself are in every client."""
    from engine.completeness import endpoint_scoring
    from engine.trees import endpoint_growth

    return {**endpoint_scoring.ENDPOINT_HANDLERS, **endpoint_growth.ENDPOINT_HANDLERS}


def main() -> None:
    """Serves requests from standard input until it closes."""
    answers = take_over_output()
    # Only now may anything native be loaded.
    from engine.completeness import model_requests as completeness
    from engine.model.process import handlers as model
    from engine.model.process.server import Server
    from engine.trees import model_requests as trees

    handlers = {**model.HANDLERS, **completeness.handlers(), **trees.HANDLERS}
    Server(sys.stdin.buffer, answers, handlers).serve()


if __name__ == "__main__":
    main()
