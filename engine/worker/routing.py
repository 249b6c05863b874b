"""The model process and the endpoints of a session behind one name; which of them answers depends on the model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from engine.model.catalog import RunnableModel
from engine.worker.client import ModelProcess
from engine.worker.endpoints.client import EndpointModel
from engine.worker.model_client import ModelClient


class RoutedProcess(ModelProcess):
    """A model process that hands models of endpoints on to these."""

    def __init__(self, log_path: Path, connect: Callable[[tuple[str, ...]], EndpointModel]) -> None:
        """Prepares, without starting.

        Args:
            connect: Gives what asks the endpoints of these names.
        """
        super().__init__(log_path)
        self._connect = connect
        self._remote: dict[tuple[str, ...], EndpointModel] = {}
        self._guard = threading.Lock()

    def client_for(self, model: RunnableModel) -> ModelClient:
        """What answers for a model."""
        return self.endpoints(model.endpoints) if model.endpoints else self

    def endpoints(self, names: tuple[str, ...]) -> EndpointModel:
        """What asks the endpoints of these names, the same for as long as the session."""
        with self._guard:
            if names not in self._remote:
                self._remote[names] = self._connect(names)
            return self._remote[names]

    def cancel(self) -> None:
        """Cancels what is being asked, wherever."""
        super().cancel()
        for remote in list(self._remote.values()):
            remote.cancel()

    def close(self) -> None:
        """Ends the process at once and gives up requests to endpoints."""
        super().close()
        for remote in list(self._remote.values()):
            remote.close()
