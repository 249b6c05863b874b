"""The request for a simulation. Each field declares its help, its default and its check once; the options of
`workbench simulate` are made of this declaration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, get_args

from engine.base import request_options as options
from engine.model.chat import Role
from engine.simulate.forms.form import TOPICS
from engine.simulate.forms.form_session import ProfileScope
from engine.simulate.forms.run import VARIANTS, Variant
from engine.simulate.play import DEFAULT_PARALLEL_PLAYS
from engine.simulate.recsim import MAX_TURNS, TASKS
from engine.simulate.sharded.instruction import BUNDLED
from engine.simulate.sharded.play import CONDITIONS, Condition

Kind = Literal["sharded", "forms", "recsim"]
"""Kinds of simulation."""

BOTH = "both"
"""Value of `variants`, as text, that selects all of them; stored as an empty tuple."""

COMMON = (
    "model", "user_model", "judge_model", "context", "runs", "seed", "temperature", "parallel", "limit",
)  # fmt: skip
"""Fields of all kinds."""

FIELDS: Mapping[Kind, tuple[str, ...]] = {
    "sharded": ("instructions", "conditions", "user_temperature", "max_tokens"),
    "forms": ("forms", "variants", "profile"),
    "recsim": ("tasks", "turns"),
}
"""The fields that a kind has beside those of all kinds."""


def _temperature(default: float | None, help: str, *, words: str = "") -> Any:
    """Declares a field for a sampling temperature; None is allowed where it is the default.

    Args:
        words: What the help says about the default, in place of its value.
    """
    option = options.Option(
        help,
        default=words,
        metavar="T",
        convert=float,
        allowed=lambda value: 0 <= value < math.inf if value is not None else default is None,
        must="a number, 0 or more",
    )
    return options.declare_option(default, option)


def _names(text: str) -> tuple[str, ...]:
    """Returns the names in a text, with commas between, in any case."""
    names = (name.strip().lower() for name in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """A simulation to run; `OPTIONS` says what each field means.

    Fields that the kind does not use (see `FIELDS`) keep their defaults.

    Raises:
        UsageError: A value cannot be used.
    """

    kind: Kind
    _: KW_ONLY
    model: str | None = options.declare_option(
        None,
        options.Option(
            "model of the assistant, and of the user and the judge where they name none: name, path,"
            " or name of an endpoint",
            default="what the project uses for simulations, else the built-in one",
        ),
    )
    user_model: str | None = options.declare_option(
        None, options.Option("model of the simulated user", default="--model", metavar="M")
    )
    judge_model: str | None = options.declare_option(
        None,
        options.Option(
            "model that sorts the replies and copies the answers out",
            default="--model",
            metavar="M",
        ),
    )
    context: int | None = options.whole_number(
        None, "longest conversation in tokens", words="the model's own, at most 8,192"
    )
    runs: int = options.whole_number(
        1, "how often each scenario is played; of recsim, how many conversations of each task"
    )
    seed: int = options.declare_option(
        0,
        options.Option(
            "seed of all that is random; the same seed gives the same conversations",
            convert=int,
            must="a whole number",
        ),
    )
    temperature: float | None = _temperature(
        None, "temperature of replies in free words", words="as in the source paper"
    )
    parallel: int = options.whole_number(DEFAULT_PARALLEL_PLAYS, "plays at once")
    limit: int | None = options.whole_number(
        None, "play the first so many only; of sharded, so many instructions", words="all"
    )
    instructions: str = options.declare_option(
        BUNDLED[0],
        options.Option(
            f"JSON or JSONL file of instructions, or bundled ones: {options.join_choices(BUNDLED)}"
        ),
    )
    conditions: tuple[Condition, ...] = options.declare_option(
        (),
        options.Option(
            f"conditions to play, with commas between: {', '.join(CONDITIONS)}",
            default="all",
            metavar="A,B",
            convert=_names,
            allowed=lambda value: set(value) <= set(CONDITIONS),
            must=f"one or more of {', '.join(CONDITIONS)}",
        ),
    )
    user_temperature: float = _temperature(1.0, "temperature of the simulated user")
    max_tokens: int = options.whole_number(1000, "longest reply of the assistant in tokens")
    forms: tuple[str, ...] = options.declare_option(
        (),
        options.Option(
            f"forms to fill: {', '.join(TOPICS)}, or JSON files",
            default="all that come along",
            metavar="FORM",
            flag="form",
            repeated=True,
        ),
    )
    variants: tuple[Variant, ...] = options.declare_option(
        (),
        options.Option(
            "fill forms by modules of one prompt each, by one prompt for all (baseline), or by both",
            default=BOTH,
            flag="variant",
            metavar=f"{{{','.join((*VARIANTS, BOTH))}}}",
            convert=lambda text: () if text == BOTH else (text,),
            allowed=lambda value: set(value) <= set(VARIANTS),
            must=options.join_choices((*VARIANTS, BOTH)),
        ),
    )
    profile: ProfileScope = options.choice(
        "question",
        "the user is another one for each question, as in the source, or one for a run, who knows the answers",
        get_args(ProfileScope),
    )
    tasks: tuple[str, ...] = options.declare_option(
        (),
        options.Option(
            f"tasks that are planned: {', '.join(TASKS)}",
            default="all",
            metavar="TASK",
            flag="task",
            repeated=True,
            allowed=lambda value: set(value) <= set(TASKS),
            must=f"one or more of {', '.join(TASKS)}",
        ),
    )
    turns: int = options.whole_number(MAX_TURNS, "answers of the assistant, at most")

    def __post_init__(self) -> None:
        options.check(self)

    def model_of(self, role: Role) -> str | None:
        """Returns the name of the model that plays a role; None is the one that the project uses for simulations."""
        chosen = {"user": self.user_model, "judge": self.judge_model, "assistant": None}[role]
        return chosen or self.model


OPTIONS: Mapping[str, options.Option] = options.options_of(SimulationRequest)
"""The option of each field of a request, by its name."""
