"""A web shop driven by search and click actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.simulate.domains.people import STREETS, TOWNS, person
from engine.simulate.script import Doubt, Part, Script, close, opening, play

_GOODS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str, tuple[int, int]]] = {
    "desk lamp": (
        ("dimmable", "with a clamp", "with USB port"),
        ("black", "white", "brass"),
        "color",
        (18, 70),
    ),
    "rain jacket": (
        ("breathable", "packable", "with hood"),
        ("S", "M", "L", "XL"),
        "size",
        (35, 120),
    ),
    "water bottle": (
        ("insulated", "leakproof", "half litre"),
        ("steel", "green", "coral"),
        "color",
        (9, 35),
    ),
    "yoga mat": (
        ("non-slip", "extra thick", "cork"),
        ("purple", "grey", "blue"),
        "color",
        (15, 60),
    ),
    "hand cream": (
        ("fragrance free", "with shea butter", "vegan"),
        ("50 ml", "100 ml"),
        "size",
        (4, 19),
    ),
    "coffee beans": (("decaf", "dark roast", "fair trade"), ("250 g", "1 kg"), "weight", (7, 32)),
    "phone case": (
        ("shockproof", "clear", "with card slot"),
        ("black", "sage", "navy"),
        "color",
        (8, 29),
    ),
    "dog collar": (
        ("reflective", "leather", "padded"),
        ("small", "medium", "large"),
        "size",
        (6, 28),
    ),
    "throw blanket": (
        ("wool", "machine washable", "fleece"),
        ("130x170", "150x200"),
        "size",
        (19, 90),
    ),
    "USB-C cable": (("braided", "two metres", "100 W"), ("black", "white"), "color", (5, 25)),
    "running socks": (
        ("merino", "seamless", "three pairs"),
        ("36-39", "40-43", "44-47"),
        "size",
        (8, 30),
    ),
    "baking tin": (
        ("springform", "non-stick", "with lid"),
        ("20 cm", "24 cm", "26 cm"),
        "size",
        (7, 34),
    ),
}
_UNCOUNTED = ("hand cream", "coffee beans", "running socks")
_ADJECTIVES = (
    *("able", "clear", "cork", "decaf", "ed", "fleece", "form", "free", "leather", "less"),
    *("merino", "proof", "roast", "slip", "stick", "thick", "trade", "vegan", "wool"),
)
"""How features end that stand before the thing; the others stand after it."""
_BRANDS = (
    *("Aldano", "Brightholm", "Corvex", "Dunmere", "Elska", "Ferrow", "Mizuno-ya", "Nordlys"),
    *("Ottavio", "Pell&Co", "Quill", "Tøyen"),
)
_EXTRAS = ("2026 model", "pack of 1", "new", "bestseller", "for home and travel", "gift box")
_BLURBS = (
    "Made for daily use. Ships in plain cardboard. [/b] Two years of warranty.",
    "★★★★☆ Our customers' favourite 🎁 — 返品可能 30日 (returns within 30 days).",
    "Care: wipe with a damp cloth. Keep away from open fire. [new] now in more [sizes]",
    '{"material": "see label", "origin": "EU", "tags": ["gift", "home"]}',
)


@dataclass(frozen=True, slots=True)
class _Product:
    code: str
    title: str
    price: float
    rating: float


class _Shop:
    """The catalogue as this conversation sees it, and the basket."""

    def __init__(self, script: Script) -> None:
        rng = script.rng
        self.script = script
        self.cart = rng.random() < 0.5
        self.basket: list[float] = []
        self.orders: list[str] = []
        self.terse = rng.random() < 0.4
        self.ship = rng.choice((0.0, 3.95, 4.9, 6.5))
        self.address = f"{rng.choice(STREETS)} {rng.randint(1, 140)}, {rng.choice(TOWNS)}"
        self.name = person(rng)

    def number(self) -> str:
        rng = self.script.rng
        return f"{rng.randint(100, 999)}-{rng.randint(1000000, 9999999)}"

    def results(self, products: Sequence[_Product]) -> str:
        blocks = [f"[{p.code}]\n{p.title}\n${p.price:.2f}" for p in products]
        total = self.script.rng.randint(len(products), 50)
        return "\n".join(
            ["[Back to Search]", f"Page 1 (Total results: {total})", "[Next >]", *blocks]
        )

    def page(self, product: _Product, kind: str, options: Sequence[str], sold_out: bool) -> str:
        return "\n".join(
            [
                "[Back to Search] [< Prev]",
                f"{kind}: " + " ".join(f"[{option}]" for option in options),
                product.title,
                f"Price: ${product.price:.2f}",
                f"Rating: {product.rating}",
                "Currently unavailable." if sold_out else "[Description] [Reviews] [Buy Now]",
            ]
        )

    def item(self, thing: str) -> Part:
        script, rng, words = self.script, self.script.rng, self.script.words
        features, options, kind, (low, high) = _GOODS[thing]
        feature, option = rng.choice(features), rng.choice(options)
        prices = [round(rng.uniform(low, high), 2) for _ in range(3)]
        cap = 5 * (int(min(prices) // 5) + rng.randint(2, 4))
        said_option = rng.random() < 0.55
        after = not feature.endswith(_ADJECTIVES)
        phrase = f"{thing} {feature}" if after else f"{feature} {thing}"
        article = "an" if phrase[0] in "aeio" else "a"
        phrase = f"{'{some|}' if thing in _UNCOUNTED else article} {phrase}"
        others = [f for f in features if f != feature] if script.outcome == "failed" else features
        products = [
            _Product(
                "B0" + "".join(rng.choices("BCDFGHJKLMNPQRSTVWXYZ0123456789", k=8)),
                f"{brand} {thing[0].upper()}{thing[1:]}, {rng.choice(others) if at else feature}, "
                f"{rng.choice(_EXTRAS)}",
                price,
                rng.randint(34, 49) / 10,
            )
            for at, (brand, price) in enumerate(
                zip(rng.sample(_BRANDS, 3), sorted(prices), strict=True)
            )
        ]
        best = products[0]

        def browse(sold_out: bool) -> None:
            script.act(
                f"search[{feature} {thing}{f' {option}' if said_option else ''}]",
                self.results(rng.sample(products, 3)),
            )
            if script.chance(0.35):
                script.act(
                    f"think[{best.code} is {feature} and costs ${best.price:.2f}, below {cap} "
                    f"dollars. The others cost more.]",
                    "OK.",
                )
            script.act(f"click[{best.code}]", self.page(best, kind, options, sold_out))

        def run() -> None:
            browse(sold_out=False)
            if script.chance(0.25):
                script.act("click[Description]", rng.choice(_BLURBS))
                script.act("click[< Prev]", self.page(best, kind, options, sold_out=False))
            if not said_option:
                script.say(
                    "{I found|There is|How about} the $title at $price. {Which $kind|It comes "
                    "in $options; which one|What $kind would you like}?",
                    title=best.title.split(",")[0],
                    price=f"${best.price:.2f}",
                    kind=kind,
                    options=", ".join(options),
                )
                script.pending()
                script.reply(
                    "{$option|the $option one|$option, please|I'd take $option|$option I "
                    "think}{.|, if it's in stock.|}",
                    option=option,
                )
            elif script.chance(0.3):
                script.say(
                    "$title {costs|is|comes to} $price, rated $rating. {Take it?|Good for "
                    "you?|Should I order that one?}",
                    title=best.title.split(",")[0],
                    price=f"${best.price:.2f}",
                    rating=best.rating,
                )
                script.pending()
                script.reply(
                    "{Yes|yes, the $brand one|Take it|ok for that price|fine, under $cap is "
                    "what counts}{.|}",
                    brand=best.title.split()[0],
                    cap=cap,
                )
            script.act(f"click[{option}]", f"You have clicked {option}.")
            self.basket.append(best.price)
            if self.cart:
                total = f"${sum(self.basket):.2f}"
                script.act("click[Add to Cart]", f"Cart ({len(self.basket)}): {total}")
            else:
                order = self.number()
                self.orders.append(order)
                script.act(
                    "click[Buy Now]",
                    f"Order {order}: {best.title.split(',')[0]}, {option}. Charged "
                    f"${best.price:.2f}.",
                )
            if not self.terse or script.chance(0.4):
                script.report(
                    "{Added|In the cart|Put in}: $thing{, $option,| ($option)} {at|for} "
                    "$price{.|, so below $cap.|.}"
                    if self.cart
                    else "{Ordered|Bought}{:| the} $thing in $option{ for|,} $price, order $order.",
                    thing=thing,
                    option=option,
                    price=f"${best.price:.2f}",
                    cap=cap,
                    order=self.orders[-1] if self.orders else "",
                )

        def fail() -> None:
            if script.chance(0.5):
                browse(sold_out=True)
                script.say(
                    "{That $thing is|The only one that fits is|$code is} {currently "
                    "unavailable|out of stock}{, and the others cost more than $cap or lack "
                    "$feature.|. Nothing else fits $cap dollars and $feature.}",
                    thing=thing,
                    code=best.code,
                    cap=cap,
                    feature=feature,
                )
            else:
                script.act(
                    f"search[{feature} {thing} under {cap}]",
                    "[Back to Search]\nPage 1 (Total results: 0)\nNo results. Check the "
                    "spelling or use fewer words.",
                )
                script.act(
                    f"search[{thing} {option}]",
                    "[Back to Search]\nPage 1 (Total results: 0)\nNo results. Check the "
                    "spelling or use fewer words.",
                )
                script.say(
                    "{No|The shop has no|I find no} $thing {at all|like that} {right now|at "
                    "the moment|today}; {I bought nothing.|so nothing was ordered.|}",
                    thing=thing,
                )

        want = words(
            f"{{find|get|order|buy}} {{me |}}{phrase}"
            + ("{,| in| - in} $option{,|}" if said_option else "")
            + " {under|below|for less than|max|for at most} $cap dollars",
            option=option,
            cap=cap,
        )
        return Part(want, f"the {thing}", run, fail, self.doubts)

    def checkout(self) -> Part:
        script, words = self.script, self.script.words

        def run() -> None:
            items = sum(self.basket)
            script.say(
                "{Cart is ready|In the cart: $n for $sum|That makes $sum}. {Send it to|Ship "
                "to|Deliver to} $address, {name|for} $name?",
                n=len(self.basket),
                sum=f"${items:.2f}",
                address=self.address,
                name=self.name,
            )
            script.pending()
            script.reply(
                "{yes|Yes, that address|correct|that's right|yep, ring twice}{.|, $street.|}",
                street=self.address.split(",")[0],
            )
            order = self.number()
            script.act(
                "click[Checkout]",
                f"Order {order}\nItems: ${items:.2f}\nShipping: ${self.ship:.2f}\nTotal: "
                f"${items + self.ship:.2f}\nShip to: {self.name}, {self.address}",
            )
            if script.chance(0.6):
                script.report(
                    "{Order|It went through as|Placed as} $order{, total| for|:} $total "
                    "{including|with} {shipping|delivery}.",
                    order=order,
                    total=f"${items + self.ship:.2f}",
                )

        def fail() -> None:
            script.act("click[Checkout]", "Payment declined (code 51). Your cart has been kept.")
            script.act("click[Retry]", "Payment declined (code 51). Your cart has been kept.")
            script.say(
                "{The payment was declined|Your card was refused} {twice|two times}, {so no "
                "order was placed|nothing is ordered}{.|; the cart is still there.}"
            )

        return Part(
            words(
                "{have it all sent|ship everything|send the lot} to $address", address=self.address
            ),
            "the {checkout|shipping|delivery}",
            run,
            fail,
            self.doubts,
        )

    def doubts(self) -> Sequence[Doubt]:
        words = self.script.words
        spent = sum(self.basket)
        return (
            (
                "{What is that together|How much is it so far|total so far}?",
                words(
                    "{So far|Together} $sum, basket of $n, before shipping.",
                    sum=f"${spent:.2f}",
                    n=len(self.basket),
                ),
            ),
            (
                "{Can I send it back|What about returns|Return policy}?",
                "{30 days|Within thirty days}, unused, {at no cost|label in the box}.",
            ),
        )


def converse(script: Script) -> str:
    """Writes one conversation; returns the label of its goal."""
    rng = script.rng
    shop = _Shop(script)
    count = 4 if script.size != "usual" else rng.choice((1, 2, 2, 3))
    if script.outcome == "broken_off":
        count = max(count, 2)
    things = rng.sample(sorted(_GOODS), count)
    parts = [shop.item(thing) for thing in things]
    if shop.cart:
        parts.append(shop.checkout())
    opening(script, [part.want for part in parts])
    play(script, parts)
    if script.outcome == "complete":
        close(script)
    return (
        "order by cart" if shop.cart else "buy " + ("one thing" if count == 1 else "several things")
    )
