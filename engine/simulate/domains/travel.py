"""Changes to bookings with an airline: an agent with tools and a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.conversation import Message
from engine.simulate.domains.people import day, person, reference
from engine.simulate.script import Doubt, Part, Script, close, opening, play

POLICY = """# Northlight Airways, booking assistant

You help travellers with existing bookings: change flights, cancel, add bags,
choose seats, send receipts.
- Look the booking up before you say anything about it.
- Basic fares can be neither changed nor refunded. Flex fares are refunded in full; standard fares less a fee of 60.
- Name the price and ask for a yes before any change that costs money.
- One request after the other; do not invent flights, seats or vouchers.
Prices are in EUR. Today is 2026-03-02."""

_STOP = "###STOP###"
_AIRPORTS = ("DUB", "LIS", "OSL", "VIE", "PRG", "AMS", "ATH", "HEL", "BCN", "KRK", "EDI", "ZAG")
_TIMES = ("06:25", "07:40", "09:15", "11:50", "13:05", "15:30", "17:45", "19:20", "21:10")


class _Trip:
    """One traveller with one or two bookings."""

    def __init__(self, script: Script) -> None:
        rng = script.rng
        self.script = script
        self.name = person(rng)
        self.code = reference(rng)
        self.origin, self.target = rng.sample(_AIRPORTS, 2)
        self.date = day(rng)
        self.flight = f"NL{rng.randint(110, 989)}"
        self.time = rng.choice(_TIMES)
        self.price = rng.randint(70, 480)
        self.fare = rng.choice(("standard", "flex"))
        self.seat = f"{rng.randint(4, 31)}{rng.choice('ABCDEF')}"
        self.spent = 0

    def record(self) -> dict[str, Any]:
        return {
            "booking": self.code,
            "passenger": self.name,
            "fare": self.fare,
            "flights": [
                {
                    "no": self.flight,
                    "from": self.origin,
                    "to": self.target,
                    "date": self.date,
                    "dep": self.time,
                }
            ],
            "seat": self.seat,
            "paid": self.price + self.spent,
            "currency": "EUR",
        }

    def approve(self, template: str, yes: str, **values: object) -> None:
        """Names the price and waits for the yes the policy asks for."""
        self.script.say(template, **values)
        self.script.pending()
        self.script.reply(yes, **values)

    def rebook(self) -> Part:
        script, rng = self.script, self.script.rng
        old_date, wanted = self.date, day(rng)
        daypart = rng.choice(("morning", "evening", "early flight", "afternoon"))

        def run() -> None:
            times = sorted(rng.sample(_TIMES, 3))
            options = [
                {"no": f"NL{rng.randint(110, 989)}", "dep": t, "fee": rng.randint(1, 12) * 5}
                for t in times
            ]
            script.call(
                "search_flights",
                {"from": self.origin, "to": self.target, "date": wanted},
                {"date": wanted, "options": options},
            )
            first = options[0] if daypart in ("morning", "early flight") else options[-1]
            listing = ", ".join(f"{o['no']} at {o['dep']} (+{o['fee']} EUR)" for o in options)
            self.approve(
                "{On|For} $date {I see|there is|I have} $listing. {Which one do you want|Which "
                "of them suits you|Tell me which one to take}?",
                "{The|I take the|Give me the|Let's say the|please the} $dep {one|flight}{.|, "
                "please.|, $no right?}",
                date=wanted,
                listing=listing,
                dep=first["dep"],
                no=first["no"],
            )
            self.date, self.flight = wanted, str(first["no"])
            self.time, fee = str(first["dep"]), int(str(first["fee"]))
            self.spent += fee
            script.call(
                "change_flight",
                {"booking": self.code, "flight": self.flight, "date": wanted},
                {"status": "changed", "flight": self.flight, "date": wanted, "charged": fee},
            )
            script.report(
                "{You are now on|Your new flight is|I moved you to} $no {on|,} $date{,|} "
                "{leaving at|departure} $dep{.| from $org.} {The difference of|I charged} $fee "
                "EUR{ was charged.| went to your card.|.}",
                no=self.flight,
                date=wanted,
                dep=self.time,
                org=self.origin,
                fee=fee,
            )

        def fail() -> None:
            script.call(
                "search_flights",
                {"from": self.origin, "to": self.target, "date": wanted},
                {"date": wanted, "options": []},
            )
            script.say(
                "{There is nothing left|No flight has a seat|Everything is sold out} from $org "
                "to $to on $date"
                "{, and I can't add you to a list|. You stay on $no|; I have no other way to "
                "get you there}.",
                date=wanted,
                org=self.origin,
                to=self.target,
                no=self.flight,
            )

        return Part(
            script.words(
                "{move|change|shift} my flight {from|on} $old to $new{, ideally in the $part|, "
                "$part if possible|}",
                old=old_date,
                new=wanted,
                part=daypart,
            ),
            "the {new date|other flight|date change|rebooking}",
            run,
            fail,
            self.doubts,
        )

    def bag(self) -> Part:
        script, rng = self.script, self.script.rng
        kilos, cost = rng.choice(((20, 35), (23, 40), (32, 65)))
        thing = rng.choice(("suitcase", "bag", "box with samples", "pair of skis", "pushchair"))

        def run() -> None:
            self.approve(
                "{A bag of up to|Checked luggage up to|One piece to} $kilos kg {is|costs|would "
                "be} $cost EUR{ on this route|}. {Shall I add it?|May I charge that to the "
                "card on file?|I need your okay for that.}",
                "{yes|Yes please|Go for it|That's fine|ok do it}{, $cost is fine.|, add it.|. "
                "The $thing is heavy.}",
                kilos=kilos,
                cost=cost,
                thing=thing,
            )
            self.spent += cost
            script.call(
                "add_bag",
                {"booking": self.code, "kg": kilos},
                {"status": "ok", "bags": [{"kg": kilos}], "charged": cost},
            )
            if script.chance(0.75):
                script.report(
                    "{Your $thing is in|The bag is on the booking|Luggage added}: $kilos kg{,| "
                    "for} $cost EUR{, drop-off closes 45 minutes before departure.|.| paid by "
                    "card.}",
                    kilos=kilos,
                    cost=cost,
                    thing=thing,
                )

        def fail() -> None:
            script.call(
                "add_bag",
                {"booking": self.code, "kg": kilos},
                {"status": "error", "message": "hold full, no further bags on this flight"},
            )
            script.say(
                "{The system refuses it|That did not work|I can't add it}: the hold of $no is "
                "{full|booked out}, {so no more bags|nothing goes in any more}.",
                no=self.flight,
            )

        return Part(
            script.words(
                "{add|book|put in} {one|a|an extra} $thing of $kg kg", thing=thing, kg=kilos
            ),
            f"the {thing}",
            run,
            fail,
            self.doubts,
        )

    def seats(self) -> Part:
        script, rng = self.script, self.script.rng
        kind = rng.choice(("window", "aisle"))
        wish = f"{rng.randint(4, 31)}{rng.choice('AF' if kind == 'window' else 'CD')}"

        def run() -> None:
            script.call(
                "assign_seat",
                {"booking": self.code, "prefer": kind},
                {"status": "ok", "seat": wish, "was": self.seat},
            )
            self.seat = wish
            script.report(
                "{Seat|You have|I put you in} $seat{ now|}, {by the $kind|on the $kind}{.|, at "
                "no charge.| in place of the old one.}",
                seat=wish,
                kind=kind,
            )

        def fail() -> None:
            script.call(
                "assign_seat",
                {"booking": self.code, "prefer": kind},
                {"status": "error", "message": f"no {kind} seat left"},
            )
            script.say(
                "{No|There is no|I find no} $kind seat {left|free} on $no{; you stay in "
                "$seat.|, I had to leave $seat as it is.}",
                kind=kind,
                no=self.flight,
                seat=self.seat,
            )

        return Part(
            script.words(
                "{get|give|find} me $kind seat", kind=f"{'an' if kind == 'aisle' else 'a'} {kind}"
            ),
            f"the {kind} seat",
            run,
            fail,
            self.doubts,
        )

    def refund(self) -> Part:
        script, rng = self.script, self.script.rng
        code, paid = reference(rng), rng.randint(80, 390)
        back = paid if rng.random() < 0.5 else paid - 60
        fare = "flex" if back == paid else "standard"

        def run() -> None:
            script.call(
                "get_booking",
                {"booking": code},
                {"booking": code, "fare": fare, "paid": paid, "passenger": self.name},
            )
            self.approve(
                "{Booking|Number} $code is {on a $fare fare|$fare}, {so you would get|which "
                "gives you|that is} $back of $paid EUR back. {Cancel it?|Do I cancel?|Please "
                "confirm that I should cancel.}",
                "{Yes|yes, cancel it|Confirmed|Do that}{, $back is okay.|, please.|. We can't "
                "travel then.}",
                code=code,
                fare=fare,
                back=back,
                paid=paid,
            )
            script.call("cancel", {"booking": code}, {"status": "cancelled", "refund": back})
            script.report(
                "{$code is cancelled|I cancelled $code|Cancelled}{.|:} $back EUR {goes|go} "
                "back to the {card|account} you paid with{ within 7 days|, allow a week|}.",
                code=code,
                back=back,
            )

        def fail() -> None:
            script.call(
                "get_booking",
                {"booking": code},
                {"booking": code, "fare": "basic", "paid": paid, "passenger": self.name},
            )
            script.say(
                "{$code was sold|You bought $code} as basic{, which is not refundable|: no "
                "money back}. {I can only offer to leave it.|The $paid EUR are lost if you "
                "don't fly.|}",
                code=code,
                paid=paid,
            )

        return Part(
            script.words(
                "cancel {my other booking|booking|the trip} $code{ and get the money back| for "
                "a refund|}",
                code=code,
            ),
            f"the refund for {code}",
            run,
            fail,
            self.doubts,
        )

    def receipt(self) -> Part:
        script = self.script
        user = script.rng.choice(("office", "travel", "me", "konto", "billing"))
        mail = f"{user}{script.rng.randint(3, 98)}@example.org"

        def run() -> None:
            script.call(
                "send_receipt",
                {"booking": self.code, "to": mail},
                {"status": "sent", "total": self.price + self.spent, "to": mail},
            )
            if script.chance(0.7):
                script.report(
                    "{The receipt over|An invoice for|A receipt for} $total EUR {is on its "
                    "way|went|has gone} to $mail.",
                    total=self.price + self.spent,
                    mail=mail,
                )

        def fail() -> None:
            script.call(
                "send_receipt",
                {"booking": self.code, "to": mail},
                "502 Bad Gateway: mail service unavailable",
            )
            script.say(
                "{The mail service is down|I get an error from the mail system}, {so nothing "
                "was sent|no receipt could go out} to $mail.",
                mail=mail,
            )

        return Part(
            script.words("{mail|send} {the receipt|an invoice|a receipt} to $mail", mail=mail),
            "the {receipt|invoice}",
            run,
            fail,
            self.doubts,
        )

    def doubts(self) -> Sequence[Doubt]:
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


def converse(script: Script) -> str:
    """Writes one conversation; returns the label of its goal."""
    rng = script.rng
    trip = _Trip(script)
    script.system(POLICY)
    if script.chance(0.25):
        script.say(
            "{Northlight Airways|Welcome to Northlight}, {how can I help|what can I do for "
            "you}{ today|}?"
        )
    makers = {
        "rebooking": trip.rebook,
        "luggage": trip.bag,
        "seat": trip.seats,
        "refund": trip.refund,
        "receipt": trip.receipt,
    }
    count = 5 if script.size != "usual" else rng.choice((1, 2, 2, 2, 3))
    if script.outcome == "broken_off":
        count = max(count, 2)
    chosen = rng.sample(sorted(makers), count)
    if "receipt" in chosen:
        chosen.remove("receipt")
        chosen.append("receipt")
    parts = [makers[kind]() for kind in chosen]
    known = script.chance(0.4)
    preface = script.words(
        "{My booking is|Booking|About} $code{, name $name|}.", code=trip.code, name=trip.name
    )
    opening(script, [part.want for part in parts], preface if known else "")
    if not known:
        script.pending()
        script.say(
            "{I can help with that|Sure|Let me look}{.|:} {What is|Please tell me|I need} your "
            "booking {code|reference} {and the name on it|and last name}{.|?}"
        )
        script.reply(
            "{It's|it is|That would be|} $code{, | / |, name is }$name",
            code=trip.code,
            name=trip.name,
        )
    script.call("get_booking", {"booking": trip.code}, trip.record())
    play(script, parts)
    if script.outcome == "complete":
        close(script)
        last = script.messages[-1]
        if last.role == "user" and script.chance(0.75):
            script.messages[-1] = Message("user", f"{last.content} {_STOP}")
    return chosen[0]
