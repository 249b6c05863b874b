"""Labels of clusters from phrases of their members."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.goals.labels import phrase_labels as module
from engine.goals.labels.phrase_labels import phrase_labels
from engine.goals.records import ClusterName, Support

FLIGHTS = [
    "I need to find a one way flight.\nFrom Boston.\nThat is all, thanks.",
    "Could you find a flight to Chicago for me?\nTomorrow.",
    "Hello, find me a flight please.\nWhat is the price?",
    "I want to find a cheap flight.\nWhat is the price?",
]
TABLES = [
    "Can you book a table for two?\nIn Napa.",
    "I'd like to book a table at a restaurant.\nWhat is the price?",
    "Book a table please.\nThanks",
    "Hi! I want to reserve a table.\nWhat is the price?",
]
CHINESE = ["我想申请退款", "请帮我申请退款", "这个订单可以申请退款吗", "买错了，想申请退款"]


def named(*clusters: Sequence[str]) -> dict[int, ClusterName]:
    """The names of clusters."""
    labels = np.repeat(np.arange(len(clusters), dtype=np.int32), [len(one) for one in clusters])
    return phrase_labels([text for one in clusters for text in one], labels)


def test_what_members_ask_for() -> None:
    """A cluster is called what most members ask for and others do not, with a member's sentence that says it."""
    found = named(FLIGHTS, TABLES)
    assert [found[0].label, found[1].label] == ["Find a flight", "Book a table"]
    assert found[0].description == "I need to find a one way flight."
    assert found[1].description == "Can you book a table for two?"


def test_a_thing_is_named_with_what_is_done_about_it() -> None:
    """Where members use different verbs about one thing, the label has one of the verbs, and is not the thing alone."""
    stations = [
        "Take me to the gas station.", "Find the gas station.", "Please locate a gas station.",
        "Show me a gas station.", "I need to check the gas station.", "Send me the gas station.", "Gas station?",
    ]  # fmt: skip
    assert named(stations, TABLES)[0].label == "Go to the gas station"


def test_a_place_is_no_goal() -> None:
    """A place that all members name is no part of a label."""
    asked = ("foggy", "dry", "cold", "windy", "misty", "cloudy")
    weather = [f"Will it be {word} in Redwood city?" for word in asked]
    assert "Redwood" not in named(weather, TABLES)[0].label


def test_center_first() -> None:
    """The sentence is of the member nearest to the center that says the label."""
    labels = np.zeros(4, dtype=np.int32)
    distances = np.array([0.9, 0.2, 0.1, 0.3], dtype=np.float32)
    found = phrase_labels(FLIGHTS, labels, distances)
    assert found[0].description == "Hello, find me a flight please."


def test_no_two_alike() -> None:
    """Clusters that ask for the same get different labels, down to the same texts."""
    found = named(FLIGHTS, FLIGHTS, FLIGHTS, [*TABLES, *TABLES])
    assert len({one.label for one in found.values()}) == 4
    assert all(found[number].label for number in found)


def test_words_in_most_clusters() -> None:
    """What every cluster says is no label."""
    common = "You are an agent. Please read the following manual carefully.\n"
    found = named([common + text for text in FLIGHTS], [common + text for text in TABLES])
    assert [found[0].label, found[1].label] == ["Find a flight", "Book a table"]


def test_language_of_the_members() -> None:
    """Chinese members give a Chinese label of whole words."""
    found = named(CHINESE, FLIGHTS)
    assert found[0].label == "申请退款"
    assert found[0].description == "我想申请退款"


def test_languages_without_rules_of_requests() -> None:
    """Clusters in a language whose requests are not read are called by the words that tell them from one another, whole
    and as they are written; a single one by none."""
    invoices = [
        "Wo finde ich denn die Rechnung?",
        "Ich brauche noch eine Rechnung.",
        "Schicken Sie mir die Rechnung.",
    ]
    parcels = [
        "Wo ist denn mein Paket?",
        "Ich warte noch immer auf das Paket.",
        "Das Paket ist nicht da, die Post sagt nichts.",
    ]
    found = named(invoices, parcels, FLIGHTS)
    assert [found[n].label for n in range(3)] == ["Rechnung", "Paket", "Find a flight"]
    assert found[0].support == Support(3, 3)
    assert named(invoices, FLIGHTS)[0] == ClusterName("Other requests", invoices[0])


def test_names_as_they_are_written() -> None:
    """Abbreviations keep their capitals."""
    names = named(["Please write a SQL query", "Write an SQL query.", "write a SQL query"], FLIGHTS)
    assert names[0].label == "Write a SQL query"


@pytest.mark.parametrize("texts", [[""], ["7402", "12"], ["yes", "ok"], ["…", "\n"], ["é"]])
def test_nothing_to_read(texts: list[str]) -> None:
    """Members without a phrase still give a label that says something or that there is none."""
    found = named(texts, FLIGHTS)
    assert found[0].label
    assert found[1].label == "Find a flight"


def test_support() -> None:
    """A name says in how many members its words stand; one that is of few members is no name."""
    restaurants = [
        f"Find a {kind} restaurant." for kind in ("lebanese", "swedish", "thai", "welsh")
    ]
    name = named([*restaurants, "I am hungry."], FLIGHTS)[0]
    assert (name.label, name.support) == ("Find a restaurant", (4, 5))


def test_several_requests() -> None:
    """Where members ask for different things, the name lists them, with the support of all."""
    accounts = ["Check my balance.", "Please check my balance.", "What is my balance?"]
    name = named([*TABLES[:3], *accounts], FLIGHTS)[0]
    assert (name.label, name.support) == ("Book a table or check my balance", (6, 6))


def test_no_common_request() -> None:
    """Members that ask for nothing in common give a name that says so, without support."""
    things = ["The lamp is old.", "A door was there.", "The chair is red.", "Snow is white."]
    assert named(things, FLIGHTS)[0] == ClusterName("Other requests", "The lamp is old.")
    wares = ["a lamp", "a chair", "a machine washable rug", "a mirror", "a machine washable hat"]
    names = named([f"I am looking for {ware}." for ware in wares], FLIGHTS)
    assert (names[0].label, names[0].support) == ("Look for other things", None)


def test_no_common_request_but_common_things() -> None:
    """Members that ask for nothing in common are called by words that many of them have; an act that nearly all of them
    name goes before."""
    jobs = ["The nightly job failed.", "My job is red.", "The job died again.", "The job!", "?"]
    name = named(jobs, FLIGHTS)[0]
    assert (name.label, name.support, name.by_words) == ("Job", Support(4, 5), True)
    back = ["I want to return the hat.", "Send me a label to return it.", "How do I return a rug?"]
    back += ["Return my lamp please.", "Please send a form so that I can return both."]
    assert named(back, FLIGHTS)[0].label == "Return something"


def test_topic() -> None:
    """Members that ask questions ask about what most of them name, one thing or a few; those that say what happened get
    help with it; a word of few members is no topic."""
    pets = ["How many dogs are there?", "Which dogs are old?", "What is the age of the dogs?"] * 2
    cats = ["What is the color of the cats?", "What is the weight of the cats?"] * 2
    assert named(pets, FLIGHTS)[0].label == "Ask about dogs"
    assert named([*pets, *cats], FLIGHTS)[0].label == "Ask about dogs or cats"
    assert named(pets[:3], FLIGHTS)[0].label == "Ask about dogs"
    bank = ["Money left my bank account.", "I lost my bank account.", "My bank account!", "Hello."]
    name = named(bank * 2, FLIGHTS)[0]
    assert (name.label, name.support) == ("Get help with my bank account", (6, 8))


def test_what_things_are_for() -> None:
    """Members that look for different things for one use have that in the name; those that look for things of one
    material have only its word in common."""
    wares = ("lamp", "rug", "chair", "bed", "mirror", "table")
    rooms = [f"I am looking for a {ware} for my room." for ware in wares]
    assert named(rooms, FLIGHTS, TABLES)[0].label == "Look for something for my room"
    wood = [f"I am looking for a {ware} made of wood." for ware in wares]
    assert named(wood, FLIGHTS, TABLES)[0].label == "Wood"


def test_act_of_few() -> None:
    """A name says an act only where most members name it, one like it or none, and its support counts these."""
    meetings = [
        "Schedule a meeting.",
        "Book a meeting.",
        "I will schedule a meeting.",
        "My meeting!",
    ]
    name = named([*meetings, "Please cancel the meeting."], FLIGHTS)[0]
    assert (name.label, name.support) == ("Schedule a meeting", (4, 5))
    lessons = ["When is my yoga class?", "What time is my yoga class?", "Schedule a yoga class."]
    assert named(lessons * 2, FLIGHTS)[0].label == "Ask about my yoga class"


def test_one_name_of_two_groups() -> None:
    """Two groups of one name are told apart by the values that follow it."""
    first = [f"Find a restaurant please, something Lebanese, {n}" for n in range(6)]
    second = [f"Find a restaurant please, something Swedish, {n}" for n in range(6)]
    labels = [name.label for name in named(first, second, FLIGHTS).values()]
    assert labels[:2] == ["Find a restaurant · Lebanese", "Find a restaurant · Swedish"]


def test_instructions() -> None:
    """What half of the members repeat word for word, and the role that a model is given, are no name."""
    prompt = (
        "You are an expert pastry cook. Always answer in at most thirty words of simple English."
    )
    found = named([f"{prompt}\n{text}" for text in [*FLIGHTS, FLIGHTS[0]]], TABLES)
    assert found[0].label == "Find a flight"


def test_outliers_are_left_out() -> None:
    """Negative labels have no name, and there may be nothing to name."""
    assert set(phrase_labels(FLIGHTS, np.array([-1, 0, 0, -1], np.int32))) == {0}
    assert phrase_labels([], np.zeros(0, np.int32)) == {}


def test_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large clusters a sample is read, the same one each time."""
    monkeypatch.setattr(module, "MAX_TEXTS_PER_CLUSTER", 3)
    texts = FLIGHTS * 5 + TABLES * 5
    labels = np.repeat(np.array([0, 1], dtype=np.int32), 20)
    first = phrase_labels(texts, labels, seed=2)
    assert phrase_labels(texts, labels, seed=2) == first


def test_reasons_ask_for_nothing() -> None:
    """A cluster of reasons that share nothing is named by other reasons, not as requests."""
    reasons = [
        "Rude.", "Too slow!", "Why me?", "Nothing works.", "Lost.", "Enough.", "Sad.", "Bad.",
    ]  # fmt: skip
    (name,) = phrase_labels(reasons, np.zeros(8, np.int32), kind="explanation:frustrated").values()
    assert name.label == "Other reasons"


def test_a_greeting_does_not_describe_a_group() -> None:
    """Where no sentence asks for anything, the longest one of the most central text says what is wanted."""
    days = ("Monday", "Tuesday", "Friday")
    found = named([f"Good morning. The tunnel breaks down on {day}." for day in days])
    assert found[0].description == "The tunnel breaks down on Monday."


def test_values_in_lower_case() -> None:
    """Words of which many stand before one noun, and places after "from" or "in", are values, without capital
    letters, too; they tell groups of one name apart."""
    kinds = [
        "thai", "french", "welsh", "polish", "greek", "swiss", "danish", "irish", "turkish", "korean", "basque",
    ]  # fmt: skip
    groups = [[f"i want a {kind} restaurant in oxford, {n}." for n in range(6)] for kind in kinds]
    labels = [name.label for name in named(*groups).values()]
    assert labels == [f"Get a restaurant · {kind}" for kind in kinds]


def test_the_first_request_is_the_goal() -> None:
    """What most members ask for first names a group though all groups ask for it, and what they ask for after it does
    not, nor does a further thing that few ask for first."""
    north, south = (
        [
            f"I am looking for a restaurant, {n}.\nIn the {part} part.\nGet me the address."
            for n in range(6)
        ]
        for part in ("north", "south")
    )
    labels = [name.label for name in named(north, south).values()]
    assert labels == ["Look for a restaurant · north", "Look for a restaurant · south"]
    salons = [f"Find me a salon, {n}." for n in range(9)]
    assert named([*salons, "Add an alarm.", "Add an alarm."], FLIGHTS)[0].label == "Find a salon"


def test_a_denied_act_is_no_request() -> None:
    """What members do not do is no name, nor a thing deep in a long form."""
    form = " ".join(f"field {n} is empty" for n in range(30))
    texts = [f"My form! {form} I do not smoke or use tobacco products. {n}" for n in range(6)]
    assert "tobacco" not in named(texts, FLIGHTS)[0].label


def test_what_is_done_about_one_thing() -> None:
    """Where all clusters are about one thing, they are named by what members do about it, and not by what only some of
    them ask for besides."""
    acts = {"cancel": "Check my profile.", "change": "Use my card.", "book": "Count passengers."}
    clusters = [
        [
            f"I need to {act} a flight to {city}.\n{besides}"
            for city in ("Boston", "Denver", "Paris")
        ]
        for act, besides in acts.items()
    ]
    labels = [name.label for name in named(*clusters).values()]
    assert labels == ["Cancel a flight", "Change a flight", "Book a flight"]


def test_who_needs_a_thing_supports_every_act_on_it() -> None:
    """Members who only say that they need a thing support a name that says how to get it."""
    taxis = [
        "Book a taxi.",
        "Book a taxi please.",
        "I need a taxi.",
        "I want a taxi.",
        "Find a taxi.",
    ]
    taxi = named(taxis, TABLES)[0]
    assert (taxi.label, taxi.support) == ("Book a taxi", Support(5, 5))


def test_single_people_and_codes_tell_no_groups_apart() -> None:
    """What tells groups of one name apart are no ids, nor the names of members, but values of what they want; who
    introduces themselves is in no name of words."""
    codes = ("XEHMQB", "XEWRDA")
    people = ("emma", "raj")
    cities = ("Denver", "Boston")
    clusters = [
        [
            f"Hi, I am {person.title()}.\nCancel my flight to {city}.\nUser {person}_kim_{n}, code {code}."
            for n in range(5)
        ]
        for person, code, city in zip(people, codes, cities, strict=True)
    ]
    labels = [name.label for name in named(*clusters).values()]
    assert labels == ["Cancel my flight · Denver", "Cancel my flight · Boston"]
    things = [
        f"{thing}, the name is {name}." for thing in ("Lamp", "Rug") for name in ("Mary", "mary")
    ]
    assert named(things, FLIGHTS, TABLES)[0].label == "Lamp, rug"


def test_assent_is_no_goal() -> None:
    """What members agree to at the end is no name of their group."""
    refunds = [
        "I bought a broken lamp.\nI would like to proceed with the refund.",
        "My chair came late.\nI want to proceed with the refund, please.",
        "This desk has a scratch.\nPlease proceed with the refund.",
        "The bed is too small.\nYes, I want to proceed with the refund.",
    ]
    assert "roceed" not in named(refunds, TABLES)[0].label


def test_no_verb_twice() -> None:
    """A verb that always stands before its thing is not taken for a part of it, too."""
    orders = [
        "Cancel order 12.",
        "I want to cancel order 7.",
        "Please cancel order 9.",
        "Cancel order.",
    ]
    assert named(orders, TABLES)[0].label == "Cancel order"
