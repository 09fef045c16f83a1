"""Which words of a product title are nouns.

WebShop asks a large spaCy model, whose tags cannot be computed without it. This module stands in
for it: it owns a split into words like spaCy's English one, and a tagger of word lists and endings
that is tuned to titles, where most words are nouns or names. The answer depends on the title alone.
The README says how much of the reward depends on it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["title_nouns"]

_SPACES: Final = re.compile(r"\s+")
_EDGE: Final = (
    "\"'`()[]{}<>*&%$#@!?,.;:~=|/\\+-"
    "\u2013\u2014\u2018\u2019\u201c\u201d\u2026\u2022\u00ae\u2122\u00a9\u00b0"
)
_INFIX: Final = re.compile(
    r"(?<=[A-Za-z0-9])[-\u2013\u2014](?=[A-Za-z])|(?<=[A-Za-z0-9])[:<>=/](?=[A-Za-z])"
    r"|(?<=[A-Za-z]),(?=[A-Za-z])|(?<=[0-9])[+\-*^](?=[0-9-])|\.{2,}|\u2026|--"
    r"|(?<=[a-z])\.(?=[A-Z])"
)
_UNIT: Final = re.compile(
    r"(.*[0-9])(km|m|dm|cm|mm|nm|ha|ft|in|yd|kg|g|mg|t|lb|oz|mph|Pa|mb|MB|kb|KB|gb|GB|tb|TB|T|G|M|K)"
)
"""A measure, which is split off its unit; letter case matters."""
_POSSESSIVE: Final = ("'s", "'S", "\u2019s", "\u2019S")

_FUNCTION_WORDS: Final = (
    "a an the this that these those each every either neither some any no all both half such what "
    "which whose i me my mine you your yours he him his she her hers it its we us our ours they "
    "them their theirs who whom and or nor but yet so if than as at by for from in into of off on "
    "onto out over per to toward towards under up upon via with within without w wo about above "
    "across after against along among around before behind below beneath beside besides between "
    "beyond down during except inside like near outside since through throughout till until vs "
    "versus am is are was were be been being do does did done has have had having can could may "
    "might must shall should will would not n't also just only very too more most less least much "
    "many few several other another same own here there when where while why how then now ever "
    "never always again once twice"
)
_NUMBERS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty "
    "hundred thousand million dozen"
)
_ADJECTIVES: Final = (
    "able acrylic active adjustable aesthetic all-natural antique authentic automatic baked best "
    "big bigger black blue bold brand bright broad brown casual ceramic cheap classic clean clear "
    "cold comfortable comfy compact compatible complete cool cordless cozy crispy cute daily dark "
    "decorative deep delicate delicious different digital dirty double dry durable easy edible "
    "electric elastic electronic elegant empty entire essential everyday excellent exclusive extra "
    "fancy fast fat fine fit flat flexible floral fluffy foldable free fresh front full fun funny "
    "furry gentle genuine giant glossy gluten-free golden good gorgeous grand gray great green "
    "grey handmade happy hard healthy heavy high hot huge ideal indoor industrial instant italian "
    "juicy kosher large last latest lightweight little long loose lovely low luxurious magnetic "
    "main male female matte medium mini minimalist mobile modern moist multiple narrow native "
    "natural neutral new next nice non-gmo normal nutritious old open optical oral orange organic "
    "original outdoor oval perfect permanent personal pink plain plush pocket polyester popular "
    "portable powerful premium pretty professional pure purple quick quiet rare raw real red "
    "regular removable replaceable reusable rich right left rechargeable round royal rustic safe "
    "salty same scented sensitive sexy sheer shiny short silky simple single sleek sleeveless slim "
    "small smart smooth soft solid special spicy square stainless stereo stretchy strong sturdy "
    "stylish super sweet tall tender thick thin tight tiny top total tough traditional transparent "
    "triple true ultra unique universal unisex unscented upper usable used useful vegan vegetarian "
    "versatile vibrant vintage warm washable waterproof weekly whole white wide wild wired "
    "wireless wooden woven yellow young"
)
_VERBS_AND_ADVERBS: Final = (
    "add adds apply bring brings buy choose clip comes contains enjoy ensures features fits get "
    "give gives go goes help helps hold holds includes including included keep keeps kill know "
    "last lasts let lets look looks made make makes move need needs offer offers prevent prevents "
    "protect protects provide provides reduce reduces remove removes see support supports take "
    "takes use uses using want wear wears work works back away together apart together inch-long "
    "easily fully highly newly perfectly quickly really softly well"
)
_NO_NOUNS: Final = frozenset(f"{_FUNCTION_WORDS} {_NUMBERS}".split())
_NO_NAMES: Final = frozenset(_VERBS_AND_ADVERBS.split())
"""Not even in Title Case."""
_LOWER_CASE_ADJECTIVES: Final = frozenset(_ADJECTIVES.split())
_ADJECTIVE_ENDINGS: Final = ("able", "ible", "less", "ous", "ical", "proof", "ful", "ish", "est")


@lru_cache(maxsize=32_768)
def title_nouns(title: str) -> tuple[str, ...]:
    """Return the nouns and names of a title, lower-case, in order and with repetitions."""
    return tuple(word.lower() for word in split_words(title) if _is_noun(word))


def split_words(text: str) -> list[str]:
    """Words, numbers and signs of a text in order."""
    words: list[str] = []
    for chunk in _SPACES.split(text):
        _split_chunk(chunk, words)
    return words


def _split_chunk(chunk: str, words: list[str]) -> None:
    while chunk and chunk[0] in _EDGE:
        words.append(chunk[0])
        chunk = chunk[1:]
    after: list[str] = []
    while chunk and chunk[-1] in _EDGE:
        after.append(chunk[-1])
        chunk = chunk[:-1]
    if chunk.endswith(_POSSESSIVE) and len(chunk) > 2:
        after.append(chunk[-2:])
        chunk = chunk[:-2]
    position = 0
    for sign in _INFIX.finditer(chunk):
        _append_word(chunk[position : sign.start()], words)
        words.append(sign[0])
        position = sign.end()
    _append_word(chunk[position:], words)
    words.extend(reversed(after))


def _append_word(word: str, words: list[str]) -> None:
    if match := _UNIT.fullmatch(word):
        words.extend(match.groups())
    elif word:
        words.append(word)


def _is_noun(word: str) -> bool:
    if not any(letter.isalpha() for letter in word) or word in _POSSESSIVE:
        return False
    lowered = word.lower()
    if lowered in _NO_NOUNS:
        return False
    if lowered in _NO_NAMES and not word.isupper():
        return False
    if not word.islower():
        # In Title Case spaCy takes nearly every word for part of a name.
        return True
    if lowered in _LOWER_CASE_ADJECTIVES or lowered.endswith(_ADJECTIVE_ENDINGS):
        return False
    return not (lowered.endswith("ly") or (lowered.endswith("ed") and len(lowered) > 4))
