"""Real conversations are read without loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import FormatError
from engine.formats.inputs import open_inputs
from engine.formats.records import Account, Parsed
from tests.shared_data import shared_samples

SAMPLES = shared_samples()
NO_LOGS = ("README.md", "llm_cassette.yaml")
"""Files among the samples that hold no log: a list of sources, and what a test recorded of HTTP."""

if SAMPLES:

    @pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
    def test_sample_of_a_format_is_read_without_loss(path: Path) -> None:
        """Every sample has conversations, and at most a fiftieth of its text goes nowhere."""
        if path.name in NO_LOGS:
            with pytest.raises(FormatError, match="no conversations"):
                open_inputs([path])
            return
        conversations = 0
        for opened in open_inputs([path]):
            account = Account()
            for record in opened.records():
                if isinstance(record, Parsed):
                    conversations += 1
                    account.include(record.account)
            assert not account.warns, (opened.label, account.lost)
        assert conversations
