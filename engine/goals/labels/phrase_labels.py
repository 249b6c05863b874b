"""Names of clusters without a model, from phrases of their members.

A name claims no more than members support: at least half have its content words, and ask for its act or for no other
act on that thing. Of the requests that are supported, one is chosen by the share of the members who make it, by the
share of those who make it first, by its support, and by how much rarer its content words are in the other clusters, or
what members do about them.

What a member asks for after another request is no goal. So a request covers only the members who ask for it first, or
for nothing else that the name might list. What others ask for first follows it ("Find a salon or add an alarm"), the
commonest first; where the name covers most members, a further part must add a fifth of them.

Where no request has that support, the name lists requests that have it together, or has the verb of most members
("Return something"), or the things that most of them name ("Look for something for my room", "Ask about dogs or
owners", "Get help with my account"). Members without any of these have no request in common, as those in a language
whose requests are not read. Words that tell them from other clusters are the name ("Parcel, courier", "Rechnung,
Beleg"), or follow "Other requests", without support, where fewer than half have one of them. Values are no part of a
name: names of places, people and products, known by their capital letters or their places in sentences, and words of
which many stand before one noun. They follow it where two clusters would have the same name ("Find a restaurant ·
Lebanese, Swedish").

The *content* of a phrase is the set of the stems of its content words, without its verb: phrases of one content are
wordings of one thing. A *request* is a part of a text that asks for something; what else a text says is an aside.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from engine.goals.labels.member_texts import (
    MIN_SUPPORT,
    PHRASE_LANGUAGES,
    Cluster,
    act_contrast_of,
    contrast_of,
    kind_of,
    without_instructions,
)
from engine.goals.labels.phrases import ADJECTIVES, PARTICLES, Phrase, phrases, sentences, verbs_of
from engine.goals.labels.spaceless_phrases import SpacelessPhrases, pairs
from engine.goals.labels.word_kinds import DETERMINERS, REQUEST_VERBS, is_participle, stem, stems
from engine.goals.labels.word_usage import Usage
from engine.goals.merges.merge_state import free_labels
from engine.goals.questions import clipped
from engine.goals.records import ClusterName, GoalText, Support, subject_of_reasons
from engine.model.embedders.vectors import Numbers

MAX_TEXTS_PER_CLUSTER = 200
"""Most texts of a cluster that are read; of more, a random sample."""
MAX_TEXTS, MIN_TEXTS_PER_CLUSTER = 6_000, 20
"""Most texts of all clusters together that are read, but at least this many of each."""
CENTRAL_MEMBERS = 10
"""Members nearest to the center among which the sentence is looked for."""
MAX_SENTENCE_CHARS = 220
"""Most characters of the description of a cluster."""
MIN_REQUEST_SUPPORT, MANY_ASKING = 0.65, 0.3
"""Least support of a request that is a name alone; and the weight of those who ask for it, as a share of the members,
from which on half is enough, and it may be asked for in other clusters as well."""
SPECIFIC_FACTOR = 1.5
"""Factor for a phrase of more than one content word: "rental car" says more than "car"."""
MIN_ADDED_SHARE = 0.1
"""Least share of the members that a further thing adds to the support of a name; at least two members, which the first
thing has, too."""
MAX_REQUESTS = 3
MIN_ADDED_LATER = 0.2
"""Least share of the members that a further thing adds to a name that has `MIN_REQUEST_SUPPORT`."""
MIN_FIRST_SHARE, LEAST_CONTRAST = 0.4, 0.3
"""Least share of the members that ask for a request first where it names a cluster though other clusters ask for it as
often; and the contrast that it has then."""
FIRST_OFFSET = 0.2
"""Added to the share of those who ask for a request first, which is a factor of its score."""
OWN_FACTOR = 1.5
"""Factor of a topic that members call theirs: "my invention"."""
MIN_ASKING = 1.5
"""Least weight of the members who ask for a request that a name lists: of one alone it says nothing."""
MIN_LISTED_SHARE = 0.1
"""Least share of the members that have a request which a name lists."""
MIN_LISTED_CONTRAST, MIN_ADDED_CONTRAST = 0.7, 1.0
"""Least contrast of a request that a name lists where no request is the name; and of one added to the request that is,
and of a topic of questions."""
MIN_LIST_SUPPORT, MIN_THING_SUPPORT = 0.5, 0.75
"""Least support of a list of requests and of a topic, and of a thing that members look for."""
MIN_TOPIC_CONTRAST, MIN_TOPIC_MEMBERS = 1.8, 5
"""Least contrast of a topic; and the least number of members who name a topic that stands alone."""
LISTED_SUPPORT = 0.8
"""The support of a name from which on nothing more is listed."""
MIN_ASKED_SHARE, MIN_CHOSEN_SHARE = 0.05, 0.15
"""Least weight of those who ask for a request that a name lists, and for the one that is the name, as a share of the
members."""
MAX_TELLING_WORDS, MIN_TELLING_SHARE, MIN_OPENING_SHARE, MIN_TELLING_CONTRAST = 2, 0.55, 0.45, 0.7
"""Most words that tell two clusters of one name apart, the least share of the members that have such a word, and that
begin with it, and its least contrast to the other clusters of that name."""
MIN_SUBJECT_SHARE, MIN_SUBJECT_CONTRAST = 0.2, 1.2
"""Least share of the members, at least two, that have a word which tells what a cluster without a common request is
about, and its least contrast."""
OTHER_WORD_FACTOR = 0.5
"""Weight of a word that is spelled as no noun is, in a name of words."""
MEANS = "use"
"""Verb of requests that name a means to something: "use my certificate"."""
_PHRASE_DRAW = 0x7068
"""Stands beside the seed for the draw of the texts, so that it differs from other draws ("ph")."""
OTHER_REQUESTS, OTHER_REASONS = "Other requests", "Other reasons"
"""Labels of a cluster whose members have nothing in common."""


def phrase_labels(
    texts: Sequence[str],
    labels: Numbers,
    distances: npt.NDArray[np.floating] | None = None,
    seed: int = 0,
    kind: GoalText = "first-user",
) -> dict[int, ClusterName]:
    """Returns a label for each cluster with its support, and the sentence of a central member that says what is wanted.

    Args:
        texts: One for each label; may be a lazy sequence.
        labels: Cluster of each text; negative ones are ignored.
        distances: Of each text to the center of its cluster; None takes the texts in their order.
        seed: Seed of the sample of texts.
        kind: What the texts are: of reasons a topic is a name by itself, of goals it is what members get help with.

    Returns:
        Names by cluster, all labels different; a description is empty where no member wrote a sentence.
    """
    rng = np.random.default_rng([seed, _PHRASE_DRAW])
    numbers = [int(number) for number in np.unique(labels) if number >= 0]
    max_texts = min(
        MAX_TEXTS_PER_CLUSTER, max(MIN_TEXTS_PER_CLUSTER, MAX_TEXTS // max(1, len(numbers)))
    )
    sampled_texts: dict[int, list[str]] = {}
    central: dict[int, list[str]] = {}
    for number in numbers:
        rows = np.flatnonzero(labels == number)
        near = rows if distances is None else rows[np.argsort(distances[rows], kind="stable")]
        near = near[:CENTRAL_MEMBERS]
        if len(rows) > max_texts:
            rows = np.sort(rng.choice(rows, max_texts, replace=False))
        rows_read = sorted({*near.tolist(), *rows.tolist()})
        stripped = without_instructions([texts[row] for row in rows_read])
        text_of_row = dict(zip(rows_read, stripped, strict=True))
        central[number] = [text_of_row[row] for row in near.tolist()]
        sampled_texts[number] = [text_of_row[row] for row in rows.tolist()]
    all_texts = [text for cluster_texts in sampled_texts.values() for text in cluster_texts]
    verbs, usage = verbs_of(all_texts), Usage(all_texts)
    spaceless = SpacelessPhrases(all_texts)

    def find_phrases(text: str) -> list[Phrase]:
        """Returns the candidates in a text that may be cut where they are."""
        spaced = [phrase for phrase in phrases(text, verbs) if usage.is_whole(phrase)]
        return spaced + list(spaceless.of(text))

    clusters = {
        key: Cluster(cluster_texts, [find_phrases(text) for text in cluster_texts])
        for key, cluster_texts in sampled_texts.items()
    }
    asks = not subject_of_reasons(kind)
    chosen: dict[int, Phrase | None] = dict.fromkeys(numbers)
    names = {}
    for number in numbers:
        if clusters[number].language in PHRASE_LANGUAGES:
            chosen[number] = _choose_request(number, clusters, usage)
            names[number] = _name_cluster(number, chosen[number], clusters, usage, asks)
        else:
            names[number] = _name_by_words(number, clusters, usage, asks)
    full_labels = _distinct_labels(names, clusters, usage)
    return {
        number: replace(
            name,
            label=full_labels[number],
            description=_choose_sentence(central[number], chosen[number], find_phrases),
        )
        for number, name in names.items()
    }


def support_of(label: str, texts: Sequence[str]) -> Support:
    """Returns how many of the texts of a cluster contain the content words of a label, its verb aside."""
    stripped = without_instructions(texts)
    cluster = Cluster(stripped, [[] for _ in stripped])
    words = frozenset(stems(label) - REQUEST_VERBS | pairs(label))
    return cluster.support(cluster.texts_with(words)) if words else Support(0, len(texts))


def _choose_request(number: int, clusters: Mapping[int, Cluster], usage: Usage) -> Phrase | None:
    """Returns the supported request that says best what a cluster is; None where none is supported.

    The score of a request is the share of the members who make it, times the square root of the share of those who
    have its content, times the contrast of that.
    """
    cluster = clusters[number]
    scores: dict[Phrase, float] = {}
    for content, (share, phrase) in cluster.requests.items():
        is_common = share >= MANY_ASKING
        least = MIN_SUPPORT if is_common else MIN_REQUEST_SUPPORT
        has_support = cluster.are_enough(least, cluster.texts_asking(phrase))
        if share < MIN_CHOSEN_SHARE or not has_support or usage.has_value(phrase):
            continue
        if phrase.verb == MEANS:
            continue
        first = len(cluster.texts_beginning(content)) / len(cluster.texts)
        contrast = contrast_of(number, content, clusters)
        contrast = max(contrast, act_contrast_of(number, phrase, clusters))
        if first >= MIN_FIRST_SHARE:
            contrast = max(contrast, LEAST_CONTRAST)
        if contrast > (0 if is_common else MIN_TOPIC_CONTRAST):
            score = share * math.sqrt(cluster.share(content)) * contrast * (FIRST_OFFSET + first)
            scores[phrase] = score * (SPECIFIC_FACTOR if len(content) > 1 else 1.0)
    return max(scores, key=scores.__getitem__, default=None)


def _name_cluster(
    number: int,
    chosen: Phrase | None,
    clusters: Mapping[int, Cluster],
    usage: Usage,
    asks: bool,
) -> ClusterName:
    """Returns the label of a cluster with its support: the chosen phrase, with what many of the other members ask for
    ("Reserve a table or check my balance"); without one the quality of the things that they look for, requests that
    together have support, or what they ask about. Labels of several clusters may be alike.

    Args:
        asks: Whether the texts ask for something; reasons do not.
    """
    cluster = clusters[number]
    verb = cluster.activity()
    is_search = bool(verb) and kind_of(verb[0]) == "get"
    activity = "find" if verb == ("get",) else " ".join(verb) or ("get help with" if asks else "")
    if not cluster.are_questions or (chosen and not cluster.asks_about(chosen.verb)):
        requests = _list_requests(number, chosen, clusters, usage)
        texts = [cluster.texts_asking(request) for request in requests]
        if requests and cluster.are_enough(MIN_SUPPORT if chosen else MIN_LIST_SUPPORT, *texts):
            label = _join_requests(requests, cluster)
            return ClusterName(_spell(label, usage), support=cluster.support(*texts))
    if (
        verb
        and not is_search
        and cluster.are_enough(
            MIN_REQUEST_SUPPORT, acting := cluster.texts_with(frozenset({verb[0]}))
        )
        and contrast_of(number, frozenset({verb[0]}), clusters) >= MIN_TOPIC_CONTRAST
    ):
        label = f"{' '.join(verb)} something"
        return ClusterName(_spell(label, usage), support=cluster.support(acting))
    if nouns := _find_topics(number, clusters, usage, is_search=is_search, asks=asks):
        texts = [cluster.texts_with(frozenset(stems(noun.casefold()))) for noun in nouns]
        label = f"{activity} {_join_parts(nouns)}".strip()
        return ClusterName(_spell(label, usage), support=cluster.support(*texts))
    is_topic = chosen and contrast_of(number, chosen.content, clusters) >= MIN_TOPIC_CONTRAST
    if chosen and is_topic and cluster.are_questions:
        label = " ".join((activity, *chosen.object_words))
        return ClusterName(
            _spell(label, usage), support=cluster.support(cluster.texts_asking(chosen))
        )
    name = _name_by_words(number, clusters, usage, asks)
    if is_search and name.support is None:
        return replace(name, label=_spell(f"{activity} other things", usage))
    return name


def _name_by_words(
    number: int, clusters: Mapping[int, Cluster], usage: Usage, asks: bool
) -> ClusterName:
    """Returns the name of a cluster without a common request: the words that many of its members have and few of the
    other clusters in that language, with support where enough members have one of them.

    In a language whose requests are not read long words weigh more, since function words are short, and so do nouns,
    which German capitalizes, where other languages capitalize names. In the others no value is such a word.
    """
    cluster = clusters[number]
    is_read = cluster.language in PHRASE_LANGUAGES
    languages = PHRASE_LANGUAGES if is_read else (cluster.language,)
    peers = {key: other for key, other in clusters.items() if other.language in languages}

    def weight_of(word: str) -> float:
        """Returns the factor of a word's contrast; 0 for a word that is no part of a name."""
        form = cluster.form(word)
        if is_read and (usage.is_value(form) or usage.is_individual(form)):
            return 0.0
        if is_read:
            return 1.0 if usage.is_noun(form) and not is_participle(word) else OTHER_WORD_FACTOR
        may_be_noun = usage.is_name(form) == (cluster.language == "de")
        return math.sqrt(len(word)) * (1.0 if may_be_noun else OTHER_WORD_FACTOR)

    words = cluster.words(with_participles=is_read) if len(peers) > 1 else []
    weights = {frozenset({word}): weight for word in words if (weight := weight_of(word))}
    least_share = max(MIN_SUBJECT_SHARE, 2 / len(cluster.texts))
    worth = _contrasts(number, list(weights), peers, least_share, MIN_SUBJECT_CONTRAST)
    worth = {content: contrast * weights[content] for content, contrast in worth.items()}
    texts = {content: cluster.texts_with(content) for content in worth}
    most = MAX_REQUESTS if is_read else MAX_TELLING_WORDS
    chosen = _choose_contents(cluster, worth, texts)[:most]
    forms = [cluster.form(word) for (word,) in chosen]
    listed = ", ".join(usage.terms_around(forms) if is_read else forms)
    support = cluster.support(*map(texts.__getitem__, chosen))
    if support.share >= MIN_LIST_SUPPORT:
        return ClusterName(_spell(listed, usage), support=support, by_words=True)
    label = " · ".join(filter(None, (OTHER_REQUESTS if asks else OTHER_REASONS, listed)))
    return ClusterName(label)


def _list_requests(
    number: int, chosen: Phrase | None, clusters: Mapping[int, Cluster], usage: Usage
) -> list[Phrase]:
    """Returns the requests that a name lists, the chosen one first; one alone that was not chosen stands out."""
    cluster = clusters[number]
    requests = {content: request.phrase for content, request in cluster.requests.items()}
    least_contrast = MIN_ADDED_CONTRAST if chosen else MIN_LISTED_CONTRAST
    least_asking = max(MIN_ASKED_SHARE, MIN_ASKING / len(cluster.texts))
    contents = [
        content
        for content, (share, phrase) in cluster.requests.items()
        if share >= least_asking
        and len(content) <= 2
        and phrase.verb
        and not usage.has_value(phrase)
    ]
    contrasts = _contrasts(number, contents, clusters, MIN_LISTED_SHARE, least_contrast)
    worth = {
        content: math.sqrt(contrast) * cluster.requests[content].share
        for content, contrast in contrasts.items()
    }
    wanted = {content: requests[content] for content in worth}
    if chosen:
        worth[chosen.content], requests[chosen.content] = math.inf, chosen
        thing = chosen.content & {stem(chosen.words[-1])} or chosen.content  # who names it wants it
        wanted[chosen.content] = replace(chosen, content=thing)
    begun = {content: cluster.texts_beginning(content) for content in worth}
    begun_by_any = set().union(*begun.values())
    asking = {content: cluster.texts_asking(request) for content, request in wanted.items()}
    texts = {  # what is asked after another request is no goal
        content: asking[content] - (begun_by_any - begun[content]) for content in wanted
    }
    listed = [requests[content] for content in _choose_contents(cluster, worth, texts, asking)]
    listed.sort(key=lambda request: -len(begun[request.content]))
    if not chosen and len(listed) == 1:
        stands_out = contrast_of(number, listed[0].content, clusters) >= MIN_TOPIC_CONTRAST
        has_support = cluster.are_enough(MIN_REQUEST_SUPPORT, cluster.texts_asking(listed[0]))
        return listed if stands_out and has_support else []
    return listed


def _find_topics(
    number: int, clusters: Mapping[int, Cluster], usage: Usage, *, is_search: bool, asks: bool
) -> list[str]:
    """Returns the nouns that most members use and few others do, as they name them: one, or several that questions are
    about; none where there are none. What members that only tell something need help with is theirs, or known to both
    sides: "my account", "the life support". What members search for is a thing, or for one: "something for my room"."""
    cluster = clusters[number]
    needs_help = asks and not (is_search or cluster.are_questions)
    wording = usage if cluster.are_questions else cluster.usage
    topic_of = {noun: wording.topic(cluster.form(noun)) for noun in cluster.words()}
    for noun in tuple(topic_of) if is_search else ():
        if not cluster.asks_for(noun):
            is_use = cluster.asks_for_use(noun)
            topic_of[noun] = f"something for {topic_of[noun]}" if is_use else ""

    def is_thing(noun: str) -> bool:
        """Returns whether a noun names a thing by itself, neither a value nor the first half of a term."""
        form, last_word = cluster.form(noun), topic_of[noun].split()[-1]
        is_asked_for = is_search or (not cluster.are_questions and cluster.asks_for(noun))
        term = usage.terms_around([form])[0].casefold().split()
        return (
            usage.is_noun(form)
            and (is_asked_for or usage.is_head(last_word))
            and not any(map(usage.is_value, term))
        )

    least_contrast = MIN_ADDED_CONTRAST if cluster.are_questions else MIN_TOPIC_CONTRAST
    contents = [
        frozenset({noun})
        for noun, topic in topic_of.items()
        if topic and (not needs_help or topic.startswith(("my ", "the "))) and is_thing(noun)
    ]
    worth = _contrasts(number, contents, clusters, MIN_LISTED_SHARE, least_contrast)
    for (noun,) in worth:
        worth[frozenset({noun})] *= OWN_FACTOR if topic_of[noun].startswith("my ") else 1.0
    find_texts = cluster.texts_opening_with if needs_help else cluster.texts_with
    texts = {content: find_texts(content) for content in worth}
    topics = _choose_contents(cluster, worth, texts)[: 1 if is_search else MAX_REQUESTS]
    least = MIN_THING_SUPPORT if is_search else MIN_LIST_SUPPORT
    has_common = any(
        cluster.are_enough(least, texts[topic]) and len(texts[topic]) >= MIN_TOPIC_MEMBERS
        for topic in topics
    )
    is_list = cluster.are_questions and len(topics) > 1
    has_support = cluster.are_enough(least, *map(texts.__getitem__, topics))
    if not has_support or not (has_common or is_list):
        return []
    return [topic_of[noun] for (noun,) in topics]


def _spell(label: str, usage: Usage) -> str:
    """Returns a label with words as most texts write them, and a capital first letter."""
    text = " ".join(
        usage.spelling(word.rstrip(",:")) + word[len(word.rstrip(",:")) :] for word in label.split()
    )
    return text[:1].upper() + text[1:]


def _choose_contents(
    cluster: Cluster,
    worth: Mapping[frozenset[str], float],
    texts: Mapping[frozenset[str], set[int]],
    asking: Mapping[frozenset[str], set[int]] | None = None,
) -> list[frozenset[str]]:
    """Returns contents that members have, at most `MAX_REQUESTS` and until they have `LISTED_SUPPORT`: each time the
    one with the largest product of its worth and the number of texts that it adds.

    Args:
        texts: The texts that each content adds.
        asking: All texts that ask for it, whatever they ask for first; where these are most, it takes more to add
            another.
    """
    count = len(cluster.texts)
    listed: list[frozenset[str]] = []
    covered: set[int] = set()
    while len(listed) < MAX_REQUESTS and len(covered) < LISTED_SUPPORT * count:
        asked = set().union(*(asking[content] for content in listed)) if asking else ()
        least = MIN_ADDED_LATER if len(asked) >= MIN_REQUEST_SUPPORT * count else MIN_ADDED_SHARE
        gains = {
            content: len(texts[content] - covered) * value
            for content, value in worth.items()
            if len(texts[content] - covered) >= max(2, least * count)
            and not any(_share_a_word(content, other) for other in listed)
        }
        if not gains:
            break
        listed.append(max(gains, key=gains.__getitem__))
        covered |= texts[listed[-1]]
    return listed


def _share_a_word(a: frozenset[str], b: frozenset[str]) -> bool:
    """Returns whether two contents share a word, or one has a word that begins as one of the other: "sleeved"."""
    return any(x.startswith(y) or y.startswith(x) for x in a for y in b)


def _join_requests(requests: Sequence[Phrase], cluster: Cluster) -> str:
    """Returns requests as one, which repeats no verb: "find a lamp or a chair", "cancel a card or report a fraud".
    Where some members ask questions, the last is "ask about a chair"."""
    parts: list[str] = []
    last_verb: tuple[str, ...] = ()
    kind = kind_of(requests[0].verb)
    for phrase in sorted(requests, key=lambda phrase: kind_of(phrase.verb) != kind):
        verb = phrase.verb_words
        same = last_verb and kind_of(verb[0]) == kind_of(last_verb[0]) and verb != ("get",)
        parts.append(" ".join((*(() if same else verb), *phrase.object_words)))
        last_verb = verb
    if cluster.are_partly_questions and len(parts) > 1:
        parts[-1] = f"ask about {parts[-1].removeprefix(' '.join(verb)).strip()}"
    return _join_parts(parts)


def _join_parts(parts: Sequence[str]) -> str:
    """Returns parts as a list: "a, b or c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def _sense(label: str) -> tuple[str, ...]:
    """Returns the words of a label by which it differs in sense: "look for a hotel" and "find hotels" have the same."""
    verb, *words = label.casefold().split()
    ignored = {"for", *DETERMINERS, *PARTICLES}
    return (kind_of(verb), *(stem(word) for word in words if word not in ignored))


def _distinct_labels(
    names: Mapping[int, ClusterName], clusters: Mapping[int, Cluster], usage: Usage
) -> dict[int, str]:
    """Returns the labels; those that several clusters have, with the words of each that the others seldom have, or with
    a number where there are none."""
    numbers_by_sense: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, name in names.items():
        numbers_by_sense[_sense(name.label)].append(number)
    full_labels: dict[int, str] = {}
    for numbers in numbers_by_sense.values():
        counts = Counter(names[number].label for number in numbers)
        label = min(counts, key=lambda label: (-counts[label], label))
        namesakes = {number: clusters[number] for number in numbers}
        for number in numbers:
            words: list[str] = []
            is_read = clusters[number].language in PHRASE_LANGUAGES
            if is_read and len(numbers) > 1:
                words = _find_telling_words(number, namesakes, label, usage)
            full_labels[number] = " · ".join(filter(None, (label, ", ".join(words))))
    return dict(zip(full_labels, free_labels(full_labels.values(), {}), strict=True))


def _find_telling_words(
    number: int, clusters: Mapping[int, Cluster], label: str, usage: Usage
) -> list[str]:
    """Returns the names, and the things, that tell a cluster best from others of the same label: values and qualities
    where there are any, else other words."""
    cluster = clusters[number]
    label_stems = set(map(stem, label.casefold().split()))
    nouns = {form for word in label_stems for form in cluster.forms(word)}

    def may_follow(word: str) -> bool:
        """Returns whether a word may stand behind the label: a name, a thing, or an adjective of what it names."""
        form = cluster.form(word)
        is_last = usage.is_head(form) if usage.is_name(word) else usage.is_noun(form)
        is_fitting = word not in ADJECTIVES or usage.is_modifier_of(form, nouns)
        return is_last and is_fitting and not usage.is_individual(form)

    words = [
        word
        for word in cluster.words(with_adjectives=True)
        if word not in label_stems
        and cluster.opening_share(word) >= MIN_OPENING_SHARE
        and may_follow(word)
    ]
    ranked = _rank_words(number, words, clusters, MIN_TELLING_SHARE, MIN_TELLING_CONTRAST)
    values = [
        word for word in ranked if usage.is_value(word) or usage.is_modifier(cluster.form(word))
    ]
    best = (values or ranked)[:MAX_TELLING_WORDS]
    return usage.terms_around([cluster.form(word) for word in best], nouns)


def _rank_words(
    number: int,
    words: Sequence[str],
    clusters: Mapping[int, Cluster],
    least_share: float,
    least_contrast: float,
) -> list[str]:
    """Returns those words that tell a cluster from the others, by their share times their contrast, the best first."""
    contents = [frozenset({word}) for word in words]
    contrasts = _contrasts(number, contents, clusters, least_share, least_contrast)
    gains = {
        word: contrast * clusters[number].share(frozenset({word}))
        for (word,), contrast in contrasts.items()
    }
    return sorted(gains, key=lambda word: (-gains[word], word))


def _contrasts(
    number: int,
    contents: Sequence[frozenset[str]],
    clusters: Mapping[int, Cluster],
    least_share: float,
    least_contrast: float,
) -> dict[frozenset[str], float]:
    """Returns the contrast of each content to the other clusters, without those of too small a share or contrast."""
    contrasts = {
        content: contrast_of(number, content, clusters)
        for content in contents
        if clusters[number].share(content) >= least_share
    }
    return {key: contrast for key, contrast in contrasts.items() if contrast >= least_contrast}


def _choose_sentence(
    texts: Sequence[str], chosen: Phrase | None, find_phrases: Callable[[str], Sequence[Phrase]]
) -> str:
    """Returns the first sentence that asks for what the label says; else the first that asks for something; else the
    longest of the first text, since a short one may only greet."""
    longest = asking = ""
    for text in texts:
        longest = longest or max(sentences(text), key=len, default="")
        for sentence in sentences(text):
            requests = [phrase for phrase in find_phrases(sentence) if phrase.request_index >= 0]
            if chosen and any(chosen.content <= phrase.content for phrase in requests):
                return clipped(sentence, MAX_SENTENCE_CHARS)
            asking = asking or (sentence if requests else "")
    return clipped(asking or longest, MAX_SENTENCE_CHARS)
