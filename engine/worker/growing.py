"""Growing trees beside the logits: from log pieces to recorded trees. Runs in the model process."""

from __future__ import annotations

from collections.abc import Callable

from engine.completeness.logs import log_tokens
from engine.model.interface import TokenModel
from engine.trees.growth import Budget, Grower, Job
from engine.trees.record import options_from, record
from engine.trees.tree import Tree
from engine.worker.protocol import Frame


def grow_trees(model: TokenModel, request: Frame, report: Callable[[int], None]) -> Frame:
    """Grows one tree for each item of a request.

    Args:
        report: Gets the nodes read since the last call; raises Cancelled when the request was cancelled.

    Returns:
        `trees`: for each item its `tree`, `answer` (tokens), `answer_log_probs`, `prompt_tokens` and `note` (what of
        the log was left out, or None); `work`: nodes, tokens, decodes, seconds, model_seconds, finished.
    """
    options = options_from(request["options"])
    jobs: list[Job] = []
    notes: list[str | None] = []
    start = model.tokenize("", special=True, start=True)
    for texts, kept, answer in request["items"]:
        recorded = model.tokenize(answer)
        room = model.capacity.context - len(start) - max(options.max_tokens, len(recorded))
        # A recorded answer of any length must not crowd out the log: only its beginning is scored.
        room = max(room, model.capacity.context // 2)
        tokens, note = log_tokens(model, texts, kept, room)
        tree = Tree(options, model.stop_tokens, model.token_bytes)
        jobs.append(Job(tree, [*start, *tokens], recorded))
        notes.append(note)
    read = 0

    def progress(nodes: int) -> None:
        nonlocal read
        report(nodes - read)
        read = nodes

    work = Grower(model).grow(jobs, Budget(**request["budget"]), progress=progress)
    return {
        "trees": [
            {
                "tree": record(job.tree).as_frame(),
                "answer": list(job.answer),
                "answer_log_probs": job.answer_log_probs,
                "prompt_tokens": len(job.prompt),
                "note": note,
            }
            for job, note in zip(jobs, notes, strict=True)
        ],
        "work": {name: getattr(work, name) for name in type(work).__slots__},
    }
