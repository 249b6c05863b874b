"""The models that an endpoint serves."""

from __future__ import annotations

from dataclasses import replace

from engine.base.errors import EndpointError, UsageError
from engine.base.text import one_line
from engine.model.http.address import Address
from engine.model.http.client import EndpointClient


def served_models(asker: EndpointClient) -> list[str]:
    """Names of the models that an endpoint serves.

    Raises:
        ModelError: It cannot be reached or does not answer with a list.
    """
    answer = asker.once("models", None)
    try:
        return [str(item["id"]) for item in answer["data"]]
    except (KeyError, TypeError) as error:
        raise EndpointError(
            f"{asker.address.base} did not answer with a list of models.",
            "It has to speak OpenAI's /v1.",
        ) from error


def with_model(asker: EndpointClient) -> Address:
    """The address with a model name: its own, else that of the only model served.

    Raises:
        ModelError: The endpoint cannot be reached or does not answer with a list.
        UsageError: No model is named, and it serves none or several.
    """
    address = asker.address
    if address.model:
        return address
    names = served_models(asker)
    if len(names) != 1:
        shown = one_line(", ".join(names[:8])) or "none"
        raise UsageError(
            f"{address.base} serves {len(names)} models ({shown}).",
            "Name one: add #MODEL to the URL.",
        )
    return replace(address, model=names[0])
