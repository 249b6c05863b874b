"""The booking of a traveller in the `travel` domain: its data, its look-up, and questions about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.simulate.domains.people import day, person, reference
from engine.simulate.script import Script, SideQuestion

_AIRPORTS = ("DUB", "LIS", "OSL", "VIE", "PRG", "AMS", "ATH", "HEL", "BCN", "KRK", "EDI", "ZAG")
TIMES = ("06:25", "07:40", "09:15", "11:50", "13:05", "15:30", "17:45", "19:20", "21:10")


class Trip:
    """A traveller and one booking."""

    def __init__(self, script: Script) -> None:
        rng = script.rng
        self.script = script
        self.name = person(rng)
        self.code = reference(rng)
        self.origin, self.target = rng.sample(_AIRPORTS, 2)
        self.date = day(rng)
        self.flight = f"NL{rng.randint(11, 98)}"
        self.time = rng.choice(TIMES)
        self.price = rng.randint(70, 480)
        self.fare = rng.choice(("standard", "flex"))
        self.seat = f"{rng.randint(4, 31)}{rng.choice('ABCDEF')}"
        self.spent = 0
        self.looked_up = False

    def record(self) -> dict[str, Any]:
        """Returns the booking as the result of the tool `get_booking`."""
        return {
            "fare": self.fare,
            "flight": f"{self.flight} {self.origin}-{self.target} {self.date} {self.time}",
            "seat": self.seat,
            "paid": self.price + self.spent,
        }

    def look_up(self) -> None:
        """Adds the tool call that looks the booking up, unless there is one already."""
        if not self.looked_up:
            self.looked_up = True
            self.script.call("get_booking", {"booking": self.code}, self.record())
            self.script.mark_unfinished()

    def ask_approval(self, template: str, yes: str, **values: object) -> None:
        """Adds the price and the user's approval, which the policy asks for before a change that costs money."""
        self.script.say(template, **values)
        self.script.mark_unfinished()
        self.script.reply(yes, **values)

    def side_questions(self) -> Sequence[SideQuestion]:
        """Returns questions about the booking and their answers; () before it was looked up."""
        if not self.looked_up:
            return ()
        words = self.script.words
        return (
            (
                "{What do I have now in total|So how much have I paid altogether|What's the "
                "total by now}?",
                words(
                    "{That is|Altogether|In total} $paid EUR {for|on} $code.",
                    paid=self.price + self.spent,
                    code=self.code,
                ),
            ),
            (
                "{Which seat is that|Where do I sit|And my seat}{, again|} {then|}?",
                words("{It is|You are in|Seat} $seat on $no.", seat=self.seat, no=self.flight),
            ),
            (
                "{When do I have to be at the airport|How early must I be there|When does it "
                "leave}?",
                words(
                    "{Departure is|It leaves} at $time from $org on $date; {two hours before "
                    "is plenty.|bags close 45 minutes before.}",
                    time=self.time,
                    org=self.origin,
                    date=self.date,
                ),
            ),
        )
