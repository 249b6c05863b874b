"""Growing trees beside the logits: from log pieces to recorded trees. Runs in the model process."""

from __future__ import annotations

from collections.abc import Callable

from engine.completeness.logs import log_tokens
from engine.errors import Cancelled
from engine.model.interface import TokenModel
from engine.trees.growth import Budget, Grower
from engine.trees.lowering import lower_below
from engine.trees.record import TreeRecord, options_from, record, restore
from engine.trees.roster import Job
from engine.trees.tree import Tree, TreeOptions
from engine.worker.protocol import Frame


def grow_trees(model: TokenModel, request: Frame, report: Callable[[int], None]) -> Frame:
    """Grows one tree for each item of a request.

    Args:
        request: `on` is None, or a recorded tree that the only item goes on from: its `tree`, and `alpha` and
            `below`, the lower alpha and the node below which it holds, or None for both. Such growth gives what
            has grown when it is cancelled.
        report: Gets the nodes read since the last call; raises Cancelled when the request was cancelled.

    Returns:
        `trees`: for each item its `tree`, `answer` (tokens), `answer_log_probs`, `prompt_tokens` and `note` (what of
        the log was left out, or None); `work`: nodes, tokens, decodes, seconds, model_seconds, finished.
    """
    options = options_from(request["options"])
    on = request.get("on")
    jobs: list[Job] = []
    notes: list[str | None] = []
    start = model.tokenize("", special=True, start=True)
    for texts, kept, answer in request["items"]:
        recorded = model.tokenize(answer)
        room = model.capacity.context - len(start) - max(options.max_tokens, len(recorded))
        # A recorded answer of any length must not crowd out the log: only its beginning is scored.
        room = max(room, model.capacity.context // 2)
        tokens, note = log_tokens(model, texts, kept, room)
        tree = _new(model, options) if on is None else _begun(model, on)
        jobs.append(Job(tree, [*start, *tokens], recorded if on is None else ()))
        notes.append(note)
    read = 0

    def progress(nodes: int) -> None:
        nonlocal read
        read, more = nodes, nodes - read
        report(more)

    try:
        work = Grower(model).grow(jobs, Budget(**request["budget"]), progress=progress)
        told = {name: getattr(work, name) for name in type(work).__slots__}
    except Cancelled:
        # What was being read waits again, so a tree that was grown on is whole; new ones are not worth keeping.
        if on is None:
            raise
        told = {"nodes": read, "seconds": 0.0, "finished": False}
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
        "work": told,
    }


def _new(model: TokenModel, options: TreeOptions) -> Tree:
    return Tree(options, model.stop_tokens, model.token_bytes)


def _begun(model: TokenModel, on: Frame) -> Tree:
    tree = restore(TreeRecord.from_frame(on["tree"]))
    tree.spelling = model.token_bytes  # a record spells only the tokens that it holds
    if on["below"] is not None:
        lower_below(tree, on["alpha"], on["below"])
    return tree
