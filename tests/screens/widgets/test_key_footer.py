"""The footer shows the keys that are active, and is composed anew for no other reason."""

from __future__ import annotations

from textual.widgets._footer import FooterKey

from screens.widgets.keyed import KeyFooter
from tests.screens.driving import opened, press, settle
from tests.screens.project import project


async def test_composed_only_when_a_key_changes() -> None:
    """Bindings that are read again leave the keys as they are; a focus with other keys shows these, and going back the
    first ones."""
    async with opened(project()) as pilot:
        footer = pilot.app.screen.query_one(KeyFooter)
        keys = list(footer.query(FooterKey))
        names = [key.description for key in keys]
        assert "Filter" in names
        pilot.app.screen.refresh_bindings()
        await settle(pilot)
        assert list(footer.query(FooterKey)) == keys

        await press(pilot, "slash")
        others = [key.description for key in footer.query(FooterKey)]
        assert "Filter" not in others
        await press(pilot, "escape")
        assert [key.description for key in footer.query(FooterKey)] == names
