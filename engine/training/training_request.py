"""Defines the request for a training run, and reads it from texts.

Each field declares its help, its default and its check once: the flags of `workbench train`, the fields of the dialog
and the planner all read this declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import asdict

from engine.base import request_options as options
from engine.base.errors import NotFound, UsageError
from engine.conversations.filters import Filter, parse_filter
from engine.training.config import RECIPES, ConfigError, TrainConfig, make_config

SETTINGS = tuple(
    name for name in TrainConfig.__struct_fields__ if name not in ("base", "base_name", "recipe")
)
"""Fields of `TrainConfig` that `TrainingRequest.settings` may set; other fields of the request set the others."""


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """The request for a training run; `OPTIONS` has the help text of each field.

    Attributes:
        settings: Names and values of fields of `TrainConfig`, as text; they override those that fit the machine.
            The `seed` among them is that of the run, the field `seed` that of what is held out.

    Raises:
        UsageError: A value cannot be used.
    """

    filter: Filter = options.declare_option(
        Filter(),
        options.Option(
            "conversations to train on and to hold out, as in the list: source:web turns>5 -tag:spam",
            default="all",
            metavar="F",
            convert=parse_filter,
        ),
    )
    name: str = options.declare_option(
        "", options.Option("name of the run and of its folder", default="base and recipe, numbered")
    )
    recipe: str = options.declare_option(
        RECIPES[0],
        options.Option(
            f"what is learned: {options.join_choices(RECIPES)}",
            allowed=lambda value: value in RECIPES,
            must=options.join_choices(RECIPES),
        ),
    )
    base: str = options.declare_option(
        "",
        options.Option(
            "weights to adapt: name of a model, GGUF file, or folder as Hugging Face writes it",
            default="the built-in model",
            metavar="M",
        ),
    )
    held_out: float = options.declare_option(
        0.5,
        options.Option(
            "share of the conversations that is kept from training: a third of it, at most 100, selects the"
            " checkpoint, and the figures come from the others only",
            metavar="S",
            convert=float,
            allowed=lambda value: 0 < value < 1,
            must="above 0 and below 1",
        ),
    )
    limit: int | None = options.declare_option(
        None,
        options.Option(
            "train on so many conversations at most",
            default="all that are not held out",
            metavar="N",
            convert=int,
            allowed=lambda value: value is None or value >= 1,
            must="a whole number above 0",
        ),
    )
    seed: int = options.declare_option(
        0, options.Option("seed of what is held out", convert=int, must="a whole number")
    )
    settings: tuple[tuple[str, str], ...] = options.declare_option(
        (),
        options.Option(
            "other settings of the run, like rank=32; `train status PROJECT RUN` lists them",
            metavar="FIELD=VALUE",
        ),
    )

    def __post_init__(self) -> None:
        """Checks the value of each field as the field declares it."""
        options.check(self)


OPTIONS: Mapping[str, options.Option] = options.options_of(TrainingRequest)
"""The declared help, choices and check of each field, by the name of the field."""

TEXT_FIELDS = tuple(name for name in OPTIONS if name not in ("filter", "settings"))
"""Fields whose value is read from one text; the filter and the settings have a syntax of their own."""


def read_request(
    texts: Mapping[str, str], settings: Sequence[str], filter: Filter
) -> TrainingRequest:
    """Returns the request that a person typed in a dialog.

    Args:
        texts: Texts of the fields in `TEXT_FIELDS`; a field that is missing or empty gets its default.
        settings: Texts of the form `FIELD=VALUE`.

    Raises:
        UsageError: A text cannot be used; the message names the field.
    """
    values = options.read_values(OPTIONS, texts, TEXT_FIELDS)
    return TrainingRequest(filter=filter, settings=read_settings(settings), **values)


def read_settings(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Returns the names and values of settings.

    Args:
        texts: Of the form `FIELD=VALUE`.

    Raises:
        UsageError: A text does not have this form.
    """
    settings = []
    for text in texts:
        name, _, value = text.partition("=")
        if not name.strip() or not value:
            raise UsageError(
                f"A setting is written field=value; {text!r} is not.", "Write it like rank=32."
            )
        settings.append((name.strip(), value))
    return tuple(settings)


def with_settings(config: TrainConfig, settings: Sequence[tuple[str, str]]) -> TrainConfig:
    """Returns the config with new values of some fields, given as text.

    Raises:
        NotFound: There is no such setting.
        UsageError: A value cannot be used.
    """
    unknown = next((name for name, _ in settings if name not in SETTINGS), None)
    if unknown is not None:
        raise NotFound(f"There is no setting {unknown!r}.", f"There are {', '.join(SETTINGS)}.")
    try:
        return make_config({**asdict(config), **dict(settings)}, strict=False)
    except ConfigError as error:
        raise UsageError(f"{error}.") from error
