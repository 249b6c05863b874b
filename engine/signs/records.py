"""Signs of trouble: what in a conversation may show that it went wrong, each with the messages that show it.

A sign is read from the text alone, without a model. It shows where to look; that a conversation failed, only a person
can say. *Trouble* is the sum of the standard scores of a conversation's signs among all of its project.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.sign import Sign


@dataclass(frozen=True, slots=True)
class SignReading:
    """A sign that a conversation has.

    Attributes:
        value: How much of it there is: the share of the messages in question that show it, 1 for a sign that is there
            or not, and for `long` the logarithm of the number of messages.
        messages: Indices of the messages that show it, rising; empty where all do.
        reason: The sign in words of this conversation, such as `the same search 4 times`.
    """

    sign: Sign
    value: float
    messages: tuple[int, ...]
    reason: str
