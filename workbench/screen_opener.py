"""Opens screens: each is imported when it is opened first, so that the first frame waits for none of the others."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual.screen import Screen

from engine.conversations.filters import Filter
from engine.opener.open_project import OpenProject
from engine.results.associations.records import Split
from screens.shell.app_interface import ReadingOrder
from screens.widgets.jobs import EngineFeed


@dataclass(frozen=True)
class ScreenOpener:
    """Makes the screens of one project; one method for each mode, named like it, and for each of `Routes`."""

    services: OpenProject
    feed: EngineFeed
    clock: Callable[[], float]

    # Modes

    def overview(self) -> Screen[Any]:
        """Makes the overview."""
        from screens.overview.screen import OverviewScreen

        return OverviewScreen(self.services, self.feed, self.clock)

    def conversations(self) -> Screen[Any]:
        """Makes the list of conversations."""
        from screens.conversations.screen import ConversationsScreen

        return ConversationsScreen(self.services, self.feed)

    def triage(self) -> Screen[Any]:
        """Makes the triage."""
        from screens.triage.screen import TriageScreen

        return TriageScreen(self.services, self.feed, self.clock)

    def trees(self) -> Screen[Any]:
        """Makes the list of response trees."""
        from screens.trees.list_screen import TreeSetScreen

        return TreeSetScreen(self.services, self.feed)

    def goals(self) -> Screen[Any]:
        """Makes the list of goal groups."""
        from screens.goals.screen import GoalsScreen

        return GoalsScreen(self.services, self.feed)

    def desk(self) -> Screen[Any]:
        """Makes the merge desk."""
        from screens.merge_review.screen import MergeDeskScreen

        return MergeDeskScreen(self.services, self.feed)

    def training(self) -> Screen[Any]:
        """Makes the list of training runs."""
        from screens.training.screen import TrainingScreen

        return TrainingScreen(self.services, self.feed)

    def models(self) -> Screen[Any]:
        """Makes the list of models."""
        from screens.models.screen import ModelsScreen

        return ModelsScreen(self.services, self.feed)

    def simulation(self) -> Screen[Any]:
        """Makes the list of simulations."""
        from screens.simulation.screen import SimulationScreen

        return SimulationScreen(self.services, self.feed)

    # Screens that several others open

    def reader(self, order: array[int], at: int, mode: str, words: Sequence[str]) -> Screen[int]:
        """Makes the reader; see `Routes.reader`."""
        from screens.reader.screen import ReaderScreen

        return ReaderScreen(self.services, self.feed, order, at, mode, words)

    def tree(self, conversation_id: int, step: int, mode: str) -> Screen[Any]:
        """Makes the response tree at a step of a conversation."""
        from screens.trees.screen import TreeScreen

        return TreeScreen(self.services, self.feed, conversation_id, step, mode)

    def calibration(self, mode: str) -> Screen[Any]:
        """Makes what the verdicts say about the scores."""
        from screens.triage.calibration_screen import CalibrationScreen

        return CalibrationScreen(self.services, self.feed, mode)

    def conversations_behind(self, filter: Filter, mode: str) -> Screen[Any]:
        """Makes the list of the conversations behind a figure."""
        from screens.conversations.screen import ConversationsBehindScreen

        return ConversationsBehindScreen(self.services, self.feed, filter, mode)

    def egress(self, address: str, allow: Callable[[], None]) -> Screen[None]:
        """Makes the dialog with what would be sent to an address on another machine."""
        from screens.shell.reading_dialogs import EgressDialog

        return EgressDialog(self.services, address, allow)

    def why(self, split: Split | None, mode: str) -> Screen[Any]:
        """Makes the list of what goes with one of two sides."""
        from screens.associations import AssociationScreen

        return AssociationScreen(self.services, self.feed, split, mode)

    def members(self, group_id: str | None, mode: str) -> Screen[Any]:
        """Makes the list of the conversations of a goal group; None for the outliers."""
        from screens.goals.members_screen import GoalMembersScreen

        return GoalMembersScreen(self.services, self.feed, group_id, mode)

    def similar(self, conversation_id: int, name: str) -> Screen[ReadingOrder | None]:
        """Makes the dialog with the conversations of the nearest goals."""
        from screens.goals.dialogs import SimilarDialog

        return SimilarDialog(self.services.goals, conversation_id, name)
