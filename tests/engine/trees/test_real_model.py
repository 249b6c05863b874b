"""Trees of the real model, on its F32 expansion, compared with a reference that reads a prompt for each node through
`Llama` of llama-cpp-python. Float noise: on F32 the same tokens in batches of different sizes agree to about 1e-6, so
trees differ at most by nodes whose probability is alpha to that accuracy. Formats with fewer bits are noisier (0.006 of
a probability for BF16 on the default model), and whether nodes that near to alpha are in a tree depends on what shares
their decode; the masses add up to 1 all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import llama_cpp
import pytest

from engine.model.interface import LoadOptions
from engine.model.llamacpp.model import LlamaModel
from engine.trees.growth import Grower, Job
from engine.trees.records import TreeOptions
from engine.trees.tree import Tree
from tests.engine.trees.prompted import grow_by_prompts

RULES = "TURN 1, STEP 1, system chat:\nYou are the clerk of a shop. Be brief.\n\n"
PROMPTS = (
    "TURN 1, STEP 1, user chat:\nWhat is the capital of France?\n\nTURN 1, STEP 2, assistant chat:\n",
    "TURN 1, STEP 1, user chat:\nMay I return a lamp?\n\nTURN 1, STEP 2, assistant chat:\n",
    f"{RULES}TURN 2, STEP 2, user chat:\nDo you have red paint?\n\nTURN 2, STEP 3, assistant chat:\n",
    f"{RULES}TURN 2, STEP 2, user chat:\nWhere is my order?\n\nTURN 2, STEP 3, assistant chat:\n",
)
LONG = TreeOptions(alpha=0.04, max_tokens=6, stop=("\n",))
WIDE = TreeOptions(alpha=0.005, max_tokens=2)
TOKEN = TreeOptions(alpha=0.09, mode="token", max_tokens=3, stop=("\n",))
NOISE = 1e-4

Nodes = dict[tuple[int, ...], float]


@pytest.fixture(scope="module")
def yardstick(exact_weights: Path) -> Iterator[llama_cpp.Llama]:
    """The `Llama` of llama-cpp-python on the same weights, with a cache of the same precision."""
    llama = llama_cpp.Llama(
        str(exact_weights),
        n_ctx=256,
        type_k=llama_cpp.GGML_TYPE_F32,
        type_v=llama_cpp.GGML_TYPE_F32,
        logits_all=True,
        verbose=False,
    )
    yield llama
    llama.close()


@pytest.fixture(scope="module")
def exact(exact_weights: Path) -> Iterator[LlamaModel]:
    """The F32 model that grows the trees."""
    model = LlamaModel(exact_weights, LoadOptions(context=256), lambda: False)
    yield model
    model.close()


def grow(
    model: LlamaModel, options: TreeOptions, prompts: Sequence[str] = PROMPTS, width: int = 32
) -> list[Tree]:
    trees = [Tree(options, model.stop_tokens, model.token_bytes) for _ in prompts]
    jobs = [Job(tree, model.tokenize(prompt)) for tree, prompt in zip(trees, prompts, strict=True)]
    Grower(model, width=width).grow(jobs)
    return trees


def nodes(tree: Tree) -> Nodes:
    return {tuple(tree.tokens(at)): node.mass for at, node in enumerate(tree.nodes)}


class TestAgainstPrompts:
    @pytest.mark.parametrize(
        ("options", "prompts"),
        [(LONG, PROMPTS[:2]), (WIDE, PROMPTS[1:2]), (TOKEN, PROMPTS[2:])],
        ids=["path", "path, shallow and wide", "token"],
    )
    def test_leaves_kinds_and_the_account(
        self,
        exact: LlamaModel,
        yardstick: llama_cpp.Llama,
        options: TreeOptions,
        prompts: Sequence[str],
    ) -> None:
        """Trees that share decodes have the leaves, kinds, probabilities and pruned mass of a recursion that reads a
        prompt for each node.
        """
        for prompt, tree in zip(prompts, grow(exact, options, prompts), strict=True):
            expected = grow_by_prompts(
                yardstick, exact.tokenize(prompt), options, exact.stop_tokens.__contains__,
                exact.token_bytes,
            )  # fmt: skip
            found = {
                (tuple(tree.tokens(at)), tree.nodes[at].kind): tree.nodes[at].mass
                for at in tree.leaves()
            }
            account = tree.account()

            assert len(found) >= 3
            assert found == pytest.approx(expected.leaves, abs=NOISE)
            assert nodes(tree) == pytest.approx(expected.nodes, abs=NOISE)
            assert account.pruned == pytest.approx(expected.pruned, abs=NOISE)
            assert account.unexpanded == 0
            assert account.covered + account.pruned == pytest.approx(1, abs=NOISE)
