"""Finds the words and phrases of conversations that are *features*, which may go with one of two sides.

A word begins with a letter; in a script without spaces each character is a word. A phrase is two or three words with
nothing but white space between them. A feature is a word or phrase with who says it and where. Of a long message both
ends are read, as by the probe on words.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from typing import NamedTuple, get_args

import numpy as np

from engine.base.arrays import Bools, Ints
from engine.base.conversation import Role
from engine.base.text import CJK
from engine.completeness.words import END_LENGTH
from engine.goals.labels.word_kinds import (
    AUXILIARIES,
    CONJUNCTIONS,
    DETERMINERS,
    PREPOSITIONS,
    PRONOUNS,
)
from engine.results.associations.odds import Incidence, join_incidences
from engine.results.associations.records import Place, Speaker, WordFeature

MAX_WORDS = 3

_GAP = " … "
"""Stands for the middle of a long message, which is not read; no phrase crosses it."""

_TOKEN = re.compile(rf"[{CJK}]|[^\W\d_{CJK}][^\W{CJK}]*(?:['’][^\W\d_{CJK}]+)?|[\d_]\w*|[^\w\s]+")
"""Matches a word (`don't`), a number (`42`, `3rd`) or signs (`?!`); numbers and signs end a phrase."""

_APOSTROPHE = re.compile("['’]")
"""Matches the sign between the words of a contraction."""

_JOINED = re.compile(rf"(?<=[{CJK}]) (?=[{CJK}])")
"""Matches the space between two words of a script without spaces."""

_BREAK = 0
"""Stands for every token that is no word: a number, signs, or the end of a message."""

_SPEAKERS: tuple[Speaker, ...] = get_args(Speaker)
"""Those who say features, by index."""

_SPEAKER_NUMBERS: dict[Role, int] = {
    "system": 0,
    "developer": 0,
    **{speaker: number for number, speaker in enumerate(_SPEAKERS)},
}
"""Index in `_SPEAKERS` of the speaker of a message of each role."""

_FUNCTION_WORDS = (PRONOUNS | DETERMINERS | AUXILIARIES | PREPOSITIONS | CONJUNCTIONS) - {"cannot"}
"""Words that are no feature alone or with each other; "cannot" is not among them, because it has a meaning alone."""


class _Vocabulary(dict[str, int]):
    """Gives each new word the next number, from 1; every other token is `_BREAK`."""

    def __init__(self) -> None:
        """Has no word yet."""
        super().__init__()
        self.words = [""]

    def __missing__(self, token: str) -> int:
        """Returns the number of a token that comes for the first time, and keeps it."""
        number = _BREAK
        if token[0].isalpha():
            number = len(self.words)
            self.words.append(token)
        self[token] = number
        return number


class _Tokens(NamedTuple):
    """The tokens of all messages; a token `_BREAK` ends each message.

    Attributes:
        words: The words by number.
        token: Number of the word at each token, shape (tokens,).
        message: Index of the message of each token, of the same shape.
        speech: Number of the conversation and speaker of each message, shape (messages,): the index of the
            conversation times the number of speakers, plus the index of the speaker.
    """

    words: list[str]
    token: Ints
    message: Ints
    speech: Ints


class _Phrases(NamedTuple):
    """Phrases of one length.

    Attributes:
        start: Index of the token at which each occurrence of a phrase begins, shape (occurrences,), rising.
        number: Number of the phrase of each occurrence, of the same shape.
        texts: The phrases by number.
    """

    start: Ints
    number: Ints
    texts: list[str]


def word_features(
    messages: Iterable[tuple[int, Role, str]], conversations: int, min_count: int
) -> tuple[list[WordFeature], Incidence]:
    """Returns the words and phrases that are features, and which conversations have them.

    A phrase of function words alone, such as "to the" or "i'm", is no feature. The first message is a place for users
    only, the last message for all speakers but the system.

    Args:
        messages: Index of the conversation, role and text of each message, conversation after conversation.
        conversations: Number of conversations.
        min_count: Fewest conversations that have a feature, and fewest that do not have it.
    """
    tokens = _read_tokens(messages)
    messages_by_place = _messages_by_place(tokens.speech)
    words, word_at_token = _frequent_words(tokens, min_count)
    start = np.flatnonzero(word_at_token >= 0)
    phrases = _Phrases(start, word_at_token[start], words)
    features: list[WordFeature] = []
    incidences: list[Incidence] = []
    for length in range(1, MAX_WORDS + 1):
        if length > 1:
            phrases = _lengthen(phrases, length - 1, word_at_token, words, min_count)
        content = [not all(map(_is_function_word, text.split())) for text in phrases.texts]
        has_content, message = np.array(content, bool), tokens.message[phrases.start]
        for place, is_in_place in messages_by_place.items():
            is_counted = is_in_place[message] & has_content[phrases.number]
            incidence, kinds = _select_eligible(
                phrases.number[is_counted],
                tokens.speech[message[is_counted]],
                len(phrases.texts),
                conversations,
                min_count,
            )
            incidences.append(incidence._replace(feature=incidence.feature + len(features)))
            for kind in kinds:
                phrase, speaker = divmod(kind, len(_SPEAKERS))
                text = _JOINED.sub("", phrases.texts[phrase])
                features.append(WordFeature(_SPEAKERS[speaker], place, text))
    return features, join_incidences(incidences)


def _messages_by_place(speech: Ints) -> dict[Place, Bools]:
    """Returns for each place which messages are there, shape (messages,).

    Args:
        speech: Conversation and speaker of each message as in `_Tokens`, of the same shape.
    """
    speaker_of = speech % len(_SPEAKERS)
    return {
        "anywhere": np.ones(len(speech), bool),
        "first": _is_first(speech) & (speaker_of == _SPEAKER_NUMBERS["user"]),
        "last": _is_first(speech[::-1])[::-1] & (speaker_of != _SPEAKER_NUMBERS["system"]),
    }


def _frequent_words(tokens: _Tokens, min_count: int) -> tuple[list[str], Ints]:
    """Returns the words that occur at least `min_count` times, and the index of the word at each token.

    The index is -1 for a token that is no such word; shape (tokens,).
    """
    is_frequent = np.bincount(tokens.token, minlength=len(tokens.words)) >= min_count
    is_frequent[_BREAK] = False
    words = [tokens.words[number] for number in np.flatnonzero(is_frequent)]
    return words, np.where(is_frequent, np.cumsum(is_frequent) - 1, -1)[tokens.token]


def _is_function_word(word: str) -> bool:
    """Returns whether a word only joins others; of a contraction such as "i'm" the first word decides."""
    return _APOSTROPHE.split(word)[0] in _FUNCTION_WORDS


def _read_tokens(messages: Iterable[tuple[int, Role, str]]) -> _Tokens:
    """Returns the tokens of messages; of a long one those of both ends, with a break between them.

    Args:
        messages: As in `word_features`.
    """
    vocabulary = _Vocabulary()
    number_of = vocabulary.__getitem__
    tokens, sizes, speeches = array("q"), array("q"), array("q")
    for row, role, text in messages:
        if len(text) > 2 * END_LENGTH:
            text = text[:END_LENGTH] + _GAP + text[-END_LENGTH:]
        message_tokens = _TOKEN.findall(text.lower())
        tokens.extend(map(number_of, message_tokens))
        tokens.append(_BREAK)
        sizes.append(len(message_tokens) + 1)
        speeches.append(row * len(_SPEAKERS) + _SPEAKER_NUMBERS[role])
    speech = np.asarray(speeches, np.int64)
    message = np.repeat(np.arange(len(speech)), np.asarray(sizes, np.int64))
    return _Tokens(vocabulary.words, np.asarray(tokens, np.int64), message, speech)


def _select_eligible(
    phrase: Ints, speech: Ints, phrases: int, conversations: int, min_count: int
) -> tuple[Incidence, list[int]]:
    """Returns which conversations have the features of one place, counted from 0, and the kind of each feature.

    A kind is a phrase that one speaker says; its number is that of the phrase times the number of speakers, plus the
    index of the speaker. A kind is a feature if enough conversations have it, and enough do not.

    Args:
        phrase: Number of the phrase of each occurrence, shape (occurrences,).
        speech: Conversation and speaker of each occurrence as in `_Tokens`, of the same shape.
        phrases: Number of phrases.
        conversations, min_count: See `word_features`.
    """
    row, speaker = np.divmod(speech, len(_SPEAKERS))
    keys = (phrase * len(_SPEAKERS) + speaker) * conversations + row
    # a key for each occurrence of a kind in a conversation: sorted, equal ones stand together
    keys.sort()  # much quicker than `np.unique`
    kind, row = np.divmod(keys[np.diff(keys, prepend=-1) > 0], conversations)
    counts = np.bincount(kind, minlength=phrases * len(_SPEAKERS))
    is_feature = (counts >= min_count) & (counts <= conversations - min_count)
    feature_of_kind = np.cumsum(is_feature) - 1
    chosen = is_feature[kind]
    incidence = Incidence(feature_of_kind[kind[chosen]], row[chosen])
    return incidence, np.flatnonzero(is_feature).tolist()


def _is_first(speech: Ints) -> Bools:
    """Returns whether each message is the first of its speaker in its conversation, shape (messages,).

    Args:
        speech: Conversation and speaker of each message as in `_Tokens`, of the same shape.
    """
    is_first = np.zeros(len(speech), bool)
    is_first[np.unique(speech, return_index=True)[1]] = True
    return is_first


def _lengthen(
    phrases: _Phrases, length: int, word_at_token: Ints, words: list[str], min_count: int
) -> _Phrases:
    """Returns the frequent phrases of `length` + 1 words.

    Args:
        phrases: The frequent phrases of `length` words.
        word_at_token: Number of the frequent word at each token, -1 for every other token; shape (tokens,).
        words: The frequent words by number.
        min_count: Fewest occurrences of a frequent phrase.
    """
    # a message ends with a break, so that a token follows each phrase
    following = word_at_token[phrases.start + length]
    goes_on = following >= 0
    keys = phrases.number[goes_on] * len(words) + following[goes_on]
    unique, number, counts = np.unique(keys, return_inverse=True, return_counts=True)
    is_frequent = counts >= min_count
    chosen = is_frequent[number]
    pairs = (column.tolist() for column in np.divmod(unique[is_frequent], len(words)))
    return _Phrases(
        phrases.start[goes_on][chosen],
        (np.cumsum(is_frequent) - 1)[number[chosen]],
        [f"{phrases.texts[before]} {words[last]}" for before, last in zip(*pairs, strict=True)],
    )
