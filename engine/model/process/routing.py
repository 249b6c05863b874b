"""Routes requests to the model process or to endpoints, depending on the model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from engine.model.catalog import RunnableModel
from engine.model.endpoints.client import EndpointModel
from engine.model.model_client import ModelClient
from engine.model.process.process import ModelProcess


class RoutedProcess(ModelProcess):
    """The model process, and the endpoints for models that they serve."""

    def __init__(
        self,
        log_path: Path,
        connect: Callable[[tuple[str, ...]], EndpointModel],
        restarted: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """Prepares, without starting.

        Args:
            connect: Gives the client of the endpoints of these names.
            restarted: See `WorkerProcess`.
        """
        super().__init__(log_path, restarted=restarted)
        self._connect = connect
        self._remote: dict[tuple[str, ...], EndpointModel] = {}
        self._guard = threading.Lock()

    def client_for(self, model: RunnableModel) -> ModelClient:
        """The client for a model."""
        return self.endpoints(model.endpoints) if model.endpoints else self

    def endpoints(self, names: tuple[str, ...]) -> EndpointModel:
        """The client of the endpoints of these names, one for the whole session."""
        with self._guard:
            if names not in self._remote:
                self._remote[names] = self._connect(names)
            return self._remote[names]

    def cancel(self) -> None:
        """Cancels the current requests."""
        super().cancel()
        for remote in list(self._remote.values()):
            remote.cancel()

    def close(self) -> None:
        """Kills the process and abandons requests to endpoints."""
        super().close()
        for remote in list(self._remote.values()):
            remote.close()
