"""Puts together what answers the requests of all subjects where endpoints serve the model."""

from __future__ import annotations

from engine.completeness import endpoint_scoring
from engine.model.endpoints.model import EndpointHandlers
from engine.trees import endpoint_growth

ENDPOINT_HANDLERS: EndpointHandlers = {
    **endpoint_scoring.ENDPOINT_HANDLERS,
    **endpoint_growth.ENDPOINT_HANDLERS,
}
"""The handlers of the subjects; those of `engine.model` itself are in every client."""
