"""The request for a simulation. Each field declares its help, its default and its check once: the flags of
`workbench simulate`, the fields of the dialog and the stored JSON all read this declaration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any, Literal, get_args

from engine.base.errors import UsageError
from engine.base.request_options import (
    Option,
    check,
    declared,
    one_of,
    options_of,
    read_values,
    whole_number,
)
from engine.model.chat import Role
from engine.simulate.forms.form import PAPER_PEOPLE, TOPICS
from engine.simulate.forms.form_session import ProfileScope
from engine.simulate.forms.run import VARIANTS, Variant
from engine.simulate.play import DEFAULT_PARALLEL_PLAYS
from engine.simulate.recsim.play import LANGUAGES, MAX_TURNS, TASKS, Language
from engine.simulate.sharded.instruction import BUNDLED
from engine.simulate.sharded.scenario import ALL_CONDITIONS, CONDITIONS, Condition

Kind = Literal["sharded", "forms", "recsim"]
"""Kinds of simulation."""

KINDS: tuple[Kind, ...] = get_args(Kind)
"""All kinds of simulation."""

BOTH = "both"
"""Value of `variants`, as text, that selects all of them; stored as an empty tuple."""


COMMON = (
    "model", "user_model", "judge_model", "context", "runs", "seed", "temperature", "parallel", "limit",
)  # fmt: skip
"""Fields of all kinds."""

FIELDS: Mapping[Kind, tuple[str, ...]] = {
    "sharded": (
        "instructions", "conditions", "merge_shards", "user_temperature", "max_tokens", "databases",
    ),
    "forms": (
        "forms", "variants", "profile", "profiles", "dummies", "free_replies",
    ),
    "recsim": ("tasks", "language", "turns"),
}  # fmt: skip
"""The fields that a kind has beside those of all kinds."""


def _temperature(default: float | None, help: str, *, words: str = "") -> Any:
    """Declares a field for a sampling temperature; None is allowed where it is the default.

    Args:
        words: What the help says about the default, in place of its value.
    """
    option = Option(
        help,
        default=words,
        metavar="T",
        convert=float,
        allowed=lambda value: 0 <= value < math.inf if value is not None else default is None,
        must="a number, 0 or more",
    )
    return declared(default, option)


def _choice(help: str, known: Sequence[str]) -> Option:
    """Returns the option of a field for one of some names."""
    return Option(
        help,
        metavar=f"{{{','.join(known)}}}",
        allowed=lambda value: value in known,
        must=one_of(known),
    )


def _names(
    help: str,
    known: Sequence[str] | None,
    *,
    words: str,
    metavar: str,
    flag: str = "",
    several: Literal["", "repeated", "words"] = "",
) -> Any:
    """Declares a field for some of the known names, or for any where None are known; they are written with commas
    between, in any case where known.

    Args:
        words: What the help says about the default, the empty tuple.
        several: See `Option`.
    """

    def convert(text: str) -> tuple[str, ...]:
        names = (name.strip() for name in text.split(","))
        return tuple(
            dict.fromkeys(name if known is None else name.lower() for name in names if name)
        )

    option = Option(
        help,
        default=words,
        metavar=metavar,
        flag=flag,
        several=several,
        convert=convert,
        allowed=lambda value: known is None or set(value) <= set(known),
        must=f"one or more of {', '.join(known or ())}",
    )
    return declared((), option)


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """A simulation to run; `OPTIONS` says what each field means.

    Fields that the kind does not use (see `FIELDS`) keep their defaults.

    Raises:
        UsageError: A value cannot be used.
    """

    kind: Kind
    _: KW_ONLY
    model: str | None = declared(
        None,
        Option(
            "model of the assistant, and of the user and the judge where they name none: name, path,"
            " or name of an endpoint",
            default="what the project uses for simulations, else the built-in one",
        ),
    )
    user_model: str | None = declared(
        None, Option("model of the simulated user", default="--model", metavar="M")
    )
    judge_model: str | None = declared(
        None,
        Option(
            "model that sorts the replies and copies the answers out",
            default="--model",
            metavar="M",
        ),
    )
    context: int | None = whole_number(
        None, "longest conversation in tokens", words="the model's own, at most 8,192"
    )
    runs: int = whole_number(
        1, "how often each scenario is played; of recsim, how many conversations of each task"
    )
    seed: int = declared(
        0,
        Option(
            "seed of all that is random; the same seed gives the same conversations",
            convert=int,
            must="a whole number",
        ),
    )
    temperature: float | None = _temperature(
        None, "temperature of replies in free words", words="as in the source paper"
    )
    parallel: int = whole_number(DEFAULT_PARALLEL_PLAYS, "plays at once")
    limit: int | None = whole_number(
        None,
        "play the first so many only; of sharded, so many instructions",
        words="all",
    )
    instructions: str = declared(
        BUNDLED[0],
        Option(f"JSON or JSONL file of instructions, or bundled ones: {one_of(BUNDLED)}"),
    )
    conditions: tuple[Condition, ...] = _names(
        f"conditions to play, with commas between: {', '.join(ALL_CONDITIONS)}",
        ALL_CONDITIONS,
        words=f"all but {', '.join(name for name in ALL_CONDITIONS if name not in CONDITIONS)}",
        metavar="A,B",
    )
    user_temperature: float = _temperature(1.0, "temperature of the simulated user")
    merge_shards: tuple[int, ...] = declared(
        (),
        Option(
            "play conditions of several turns also with the shards of each instruction merged into so many (gradual"
            " sharding); several numbers with commas between",
            default="as they are only",
            metavar="N,M",
            convert=lambda text: tuple(dict.fromkeys(int(number) for number in text.split(","))),
            allowed=lambda value: all(number >= 2 for number in value),
            must="whole numbers from 2 on",
        ),
    )
    max_tokens: int = whole_number(1000, "longest reply of the assistant in tokens")
    databases: str | None = declared(
        None, Option("folder with DB_ID/*.sqlite for database tasks", default="none", metavar="DIR")
    )
    forms: tuple[str, ...] = _names(
        f"forms to fill: {', '.join(TOPICS)}, or JSON files",
        None,
        words="all that come along",
        metavar="FORM",
        flag="form",
        several="repeated",
    )
    variants: tuple[Variant, ...] = declared(
        (),
        Option(
            "fill forms by modules of one prompt each, by one prompt for all (baseline), or by both",
            default=BOTH,
            flag="variant",
            metavar=f"{{{','.join((*VARIANTS, BOTH))}}}",
            convert=lambda text: () if text == BOTH else (text,),
            allowed=lambda value: set(value) <= set(VARIANTS),
            must=one_of((*VARIANTS, BOTH)),
        ),
    )
    profile: ProfileScope = field(
        default="question",
        metadata={
            "option": _choice(
                "the user is another one for each question, as in the source, or one for a run, who knows the answers",
                get_args(ProfileScope),
            )
        },
    )
    profiles: str | None = declared(
        None,
        Option(
            f"JSON file with a list of users, or `{PAPER_PEOPLE}` for the ten of the source",
            default="ten bundled users",
            metavar="FILE",
        ),
    )
    dummies: tuple[str, ...] = _names(
        "modules whose fallback answers at once, by the names of their prompts, or all",
        None,
        words="none",
        metavar="MODULE",
        several="words",
    )
    free_replies: bool = declared(
        False,
        Option(
            "replies follow no JSON schema, as in the source: a module may choose any action, and fail to follow its"
            " instructions, which is counted"
        ),
    )
    tasks: tuple[str, ...] = _names(
        f"tasks that are planned: {', '.join(TASKS)}",
        TASKS,
        words="all",
        metavar="TASK",
        flag="task",
        several="repeated",
    )
    language: Language = field(
        default="en", metadata={"option": _choice("language of the conversations", LANGUAGES)}
    )
    turns: int = whole_number(MAX_TURNS, "answers of the assistant, at most")

    def __post_init__(self) -> None:
        check(self)

    def model_of(self, role: Role) -> str | None:
        """Returns the name of the model that plays a role; None is the one that the project uses for simulations."""
        chosen = {"user": self.user_model, "judge": self.judge_model, "assistant": None}[role]
        return chosen or self.model


@dataclass(frozen=True, slots=True)
class SimulationOffers:
    """The choices for a new request.

    Attributes:
        models: Names of models; the one that the project uses for simulations is first.
        last: The last request, or None.
        usual_conditions: The conditions of the default.
        forms: Name and subject of each bundled form.
        variants: Ways to fill a form.
        tasks: What users with profiles plan.
        languages: Languages of their conversations.
    """

    models: tuple[str, ...]
    last: SimulationRequest | None = None
    usual_conditions: tuple[str, ...] = CONDITIONS
    forms: tuple[tuple[str, str], ...] = tuple(TOPICS.items())
    variants: tuple[str, ...] = VARIANTS
    tasks: tuple[str, ...] = TASKS
    languages: tuple[Language, ...] = LANGUAGES


OPTIONS: Mapping[str, Option] = options_of(SimulationRequest)
"""The option of each field of a request, by its name."""


def read_request(kind: Kind, texts: Mapping[str, str]) -> SimulationRequest:
    """Returns the request that a person typed.

    Args:
        texts: Texts by the names of the fields; one that is missing or empty takes its default.

    Raises:
        UsageError: A text cannot be used; the message names the field.
    """
    return SimulationRequest(kind, **read_values(OPTIONS, texts, tuple(texts)))


def as_request(value: Mapping[str, Any]) -> SimulationRequest:
    """Returns a request from its JSON.

    Raises:
        UsageError: It is none; another version of the program may have written it.
    """
    known: dict[str, Any] = {
        name: tuple(field) if isinstance(field, list) else field for name, field in value.items()
    }
    try:
        if known.get("kind") not in KINDS:
            raise TypeError("kind")
        return SimulationRequest(**known)
    except (TypeError, UsageError) as error:
        raise UsageError("The stored request cannot be read.", "Make a new one.") from error


def request_as_json(request: SimulationRequest) -> dict[str, Any]:
    """Returns a request as JSON values."""
    return asdict(request)
