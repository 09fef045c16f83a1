"""Invented names: of people, places and works of several cultures, none of them real.

Contains the sounds of each culture and the promise that a name is given once. Everything depends on
the generator's own draws alone; only `Random.random` is used, which Python keeps equal between
versions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

__all__ = ["CULTURES", "Culture", "Draw", "Register"]

T = TypeVar("T")


class Draw:
    """A stream of choices that is the same on every machine and Python version."""

    __slots__ = ("_random",)

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def below(self, bound: int) -> int:
        """Return an integer of [0, bound)."""
        return int(self._random() * bound)

    def between(self, low: int, high: int) -> int:
        """Return an integer of [low, high]."""
        return low + int(self._random() * (high - low + 1))

    def chance(self, share: float) -> bool:
        """True in this share of the draws."""
        return self._random() < share

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[int(self._random() * len(options))]

    def few(self, options: Sequence[T], count: int) -> list[T]:
        """Some of the options, no place twice, in a drawn order."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]


@dataclass(frozen=True, slots=True)
class Culture:
    """The sounds of a language: space-separated parts."""

    onsets: str
    vowels: str
    codas: str
    towns: str
    """Endings of town names."""
    surnames: str
    """Endings of surnames."""
    women: str
    """Endings of women's given names."""
    men: str


CULTURES: Final = (
    Culture("b d f g h k l m n r s t v br dr st", "a e i o", "l n r s", "vik berg dal holm sund",
            "sen lund gren strand", "a e ine", "ar en ulf"),
    Culture("c d f g l m n p r s t v z", "a e i o u", "n r l", "ano ella ese etto aria",
            "etti ini ardo one", "ia ina etta", "o io ando"),
    Culture("b ch d g k l m n p s v z zh tr", "a e i o u", "n r v k", "grad ovo itsa nik ava",
            "ov enko ski ich", "ena ova ka", "mir slav an"),
    Culture("b c d g l m n r s t w ll rh", "a e i o y", "n r th dd", "wen mor aber lan gwyn",
            "wyn ach eth dryn", "wen ys eth", "an yn or"),
    Culture("h k m n r s t w y sh", "a i o e u", "n", "saki mura gawa shima hara",
            "moto yama da guchi", "ko mi e", "ro shi ki"),
    Culture("b d f h j k l m n q r s t z", "a i u", "n r m l", "abad iyah an ur esh",
            "zadeh ani ari our", "ah een a", "im ad un"),
    Culture("k l m n p t v j h s", "a e i o u y", "n s l", "joki lahti niemi koski vaara",
            "nen la mäki sto", "ja kka vi", "o tti us"),
    Culture("b d g k l m n p t w ng mb", "a e i o u", "n m", "weni kazi dolo pong engo",
            "eko umba ari ongo", "ani ele isa", "abo eni uko"),
    Culture("b c d f g h m n p r s t w", "a e i o u", "ck nd rt ll st", "ford ham worth stow combe",
            "well ley man croft", "anne ity a", "ard win bert"),
    Culture("ch k l m n p q t tl x h", "a i o e", "l c n", "tlan pec co nango titla",
            "chal coyo tec uatl", "itl ani xo", "oc ac tli"),
)  # fmt: skip

_UGLY: Final = ("nig", "fuk", "fuc", "shit", "cunt", "rape", "nazi", "porn", "cock", "anus", "kkk")


class Register:
    """Gives names of all cultures, each of them once."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._given: set[str] = set()
        self._sounds = [
            tuple(part.split() for part in (c.onsets, c.vowels, c.codas)) for c in CULTURES
        ]
        self._women = [self._pool(n, c.women, 70) for n, c in enumerate(CULTURES)]
        self._men = [self._pool(n, c.men, 70) for n, c in enumerate(CULTURES)]
        self._surnames = [self._pool(n, c.surnames, 160) for n, c in enumerate(CULTURES)]

    def once(self, make: Callable[[], str]) -> str:
        """Return the first result of `make` that was never given before."""
        while True:
            name = make()
            if name.lower() not in self._given:
                self._given.add(name.lower())
                return name

    def town(self, culture: int) -> str:
        """Return a new town."""
        endings = CULTURES[culture].towns.split()
        return self.once(lambda: self._word(culture, 1) + self._draw.pick(endings))

    def place(self, culture: int) -> str:
        """Return a new word for a river, a mountain, a land."""
        return self.once(lambda: self._word(culture, self._draw.between(2, 3)))

    def person(self, culture: int, *, woman: bool) -> str:
        """Return a new full name; given names and surnames repeat, as among people."""
        first_names = (self._women if woman else self._men)[culture]
        draw, surnames = self._draw, self._surnames[culture]
        return self.once(lambda: f"{draw.pick(first_names)} {draw.pick(surnames)}")

    def surname(self, culture: int) -> str:
        """Return a surname of the culture, which may be anybody's."""
        return self._draw.pick(self._surnames[culture])

    def _pool(self, culture: int, endings: str, size: int) -> list[str]:
        ends = endings.split()
        return [
            self.once(lambda: self._word(culture, 1) + self._draw.pick(ends)) for _ in range(size)
        ]

    def _word(self, culture: int, syllables: int) -> str:
        """Return a capitalised word of so many syllables and half a one."""
        onsets, vowels, codas = self._sounds[culture]
        draw = self._draw
        while True:
            parts = [draw.pick(onsets) + draw.pick(vowels) for _ in range(syllables)]
            word = "".join(parts) + draw.pick(onsets)[0] + draw.pick(vowels)
            if draw.chance(0.6):
                word += draw.pick(codas)
            if not any(part in word for part in _UGLY):
                return word.capitalize()
