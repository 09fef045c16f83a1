"""Invented people: first and last names by culture, one distinct name per number.

Names are put together from first names and from stems with endings, so any likeness to a living
person is chance. Everything is arithmetic: nothing is drawn, nothing is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Final

__all__ = ["CULTURES", "Culture", "mix_bits", "permuted_index"]

_MASK: Final = 2**64 - 1


def mix_bits(*parts: int) -> int:
    """Return a 64-bit hash of the parts (splitmix64 over them); the same everywhere."""
    state = 0x9E3779B97F4A7C15
    for part in parts:
        state = (state ^ part) & _MASK
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def permuted_index(index: int, size: int) -> int:
    """Return where a fixed permutation of `range(size)` takes an index; neighbours go far apart."""
    stride = int(size * 0.6180339887) | 1
    while gcd(stride, size) != 1:
        stride += 2
    return (index * stride + size // 3) % size


@dataclass(frozen=True)
class Culture:
    """First names, and last names made of stems and endings."""

    firsts: tuple[str, ...]
    stems: tuple[str, ...]
    endings: tuple[str, ...]
    family_first: bool = False

    @cached_property
    def size(self) -> int:
        """How many distinct names there are."""
        return len(self.firsts) * len(self.stems) * len(self.endings)

    def name(self, index: int) -> str:
        """Return the name of a number below `size`; distinct for distinct numbers."""
        rest, first = divmod(permuted_index(index, self.size), len(self.firsts))
        ending, stem = divmod(rest, len(self.stems))
        last = self.stems[stem] + self.endings[ending]
        first_name = self.firsts[first]
        return f"{last} {first_name}" if self.family_first else f"{first_name} {last}"


def _culture(firsts: str, stems: str, endings: str = "", *, family_first: bool = False) -> Culture:
    """`_` among the endings is the empty one."""
    ends = tuple("" if end == "_" else end for end in (endings or "_").split())
    return Culture(tuple(firsts.split()), tuple(stems.split()), ends, family_first)


_KOREAN_FIRST: Final = "Chan Da Do Eun Ga Hyun Ji Min Seo Soo Woo Yeon"
_KOREAN_SECOND: Final = "ah bin eun ho hyuk jin kyung mi ra sang won young"

CULTURES: Final = {
    "english": _culture(
        "Ada Adam Agnes Albert Alice Amos Andrea Angus Anna Arthur Audrey Barnaby Beatrix Bernard "
        "Bridget Calvin Cecily Charles Clara Clement Cora Daisy Damian Daphne Declan Dinah Dorian "
        "Edgar Edith Edmund Eleanor Elias Ellis Emmett Esther Eugene Felix Fiona Florence Gareth "
        "Gemma Gideon Grace Gwen Harold Harriet Hazel Hector Helen Hugo Ida Imogen Iris Isaac "
        "Ivor Jane Jasper Jessamy Joan Josephine Judith Julian June Kenneth Laura Lenora Leonard "
        "Lewis Lionel Lois Lucian Mabel Magnus Malcolm Marian Martha Maud Mercy Miles Miriam "
        "Morris Nadine Nell Nigel Nora Oliver Olive Oscar Patience Percy Philippa Quentin Ralph "
        "Rhoda Robin Rosalind Rowan Rufus Ruth Sabine Selma Silas Stella Sylvia Tamsin Thelma "
        "Theodore Ursula Vera Vernon Violet Walter Wilfred Winifred",
        "Ash Barr Beck Birch Black Brad Brook Carl Clay Cold Crow Dun East Fair Fern Gar Gold "
        "Gray Green Hale Hart Haw Holl Kings Lang Lock Mar Mill Moor North Oak Pember Raven Red "
        "Rock Sand Shel Stan Thorn Under Wake West Whit Wild Win",
        "_ berry bourne bury combe cott dale den field ford grove ham ley lock man mere more "
        "ridge ton wall well wick wood worth",
    ),
    "french": _culture(
        "Adele Alain Armand Aurelie Baptiste Benoit Blaise Camille Cecile Claude Clemence Denis "
        "Edith Eloise Etienne Fabien Florian Gaspard Gisele Henri Isabelle Jacques Jeanne Julien "
        "Lea Lucie Luc Manon Marcel Mathilde Noemi Odile Olivier Pascal Remy Solange Theo Valerie "
        "Victor Yves",
        "Ardou Bastie Beau Bois Cler Dela Dumou Fauche Garde Lafor Lamo Marcha Monte Perro Rive "
        "Roche Salva Tessi Vau Verni",
        "n t net bert cour cy geron lier mont que rel ville",
    ),
    "german": _culture(
        "Anja Anton Bernd Birgit Bruno Clemens Dagmar Dieter Elke Emil Ernst Franziska Frieda "
        "Gerda Gisela Hannes Heike Helmut Ingrid Jochen Johanna Jonas Jutta Karin Kaspar Klara "
        "Konrad Lena Lothar Lukas Margit Matthias Nils Ottilie Paul Petra Rainer Sabine Sigrid "
        "Tilda",
        "Adler Berg Blumen Brand Eich Falken Gold Hoch Kirch Lang Linden Morgen Neu Ober Reh "
        "Rosen Schwarz Stern Wald Wein",
        "_ au bach beck berger feld hagen heim hofer mann stein tal",
    ),
    "italian": _culture(
        "Ada Alba Aldo Bianca Bruno Carla Cesare Chiara Dario Delia Elena Elio Enzo Fabio Flavia "
        "Franca Gaia Gino Giulia Ilaria Ivo Laura Lidia Livio Luca Marco Marta Matteo Mirella "
        "Nico Nora Orlando Paola Piero Rita Rocco Sandra Sergio Silvia Tullio",
        "Bal Bar Bel Ben Ber Bor Can Cas Col Cor Fer Gal Gar Lan Mar Mon Pel Ros San Val",
        "accini anti atti ducci elli eri etti ini one oni otto uzzi",
    ),
    "spanish": _culture(
        "Abel Alba Alicia Andres Aurora Blanca Bruno Carmen Celia Dario Diego Elena Emilio "
        "Esteban Eva Fermin Gael Gloria Hugo Ines Irene Javier Jimena Julia Leon Lola Lucio Luz "
        "Marcos Marina Mateo Nieves Nuria Olga Oscar Paloma Rafael Rocio Saul Tomas",
        "Agui Alva Arre Bala Cabre Carra Casta Delga Escu Figue Gala Herre Lare Miran Monta Nava "
        "Orte Pala Quinta Sala",
        "do ga gue la les lla no ra rdo res ro za",
    ),
    "portuguese": _culture(
        "Adriana Afonso Beatriz Bento Caio Carla Clarice Davi Diana Duarte Elisa Fabio Fatima "
        "Gil Helena Heitor Iara Inacio Joana Jorge Leonor Lidia Luis Mafalda Marcelo Nara Nuno "
        "Otavio Paulo Rita Rui Sara Simao Teresa Tiago Vasco Vera Vitor Xavier Zelia",
        "Alme Amo Bara Barbo Car Cas Coe Dua Fari Fon Gou Lei Maga Mene Morei Noguei Pache Pe "
        "Sampa Teixei",
        "da drosa io lhaes lho nho ra rinho roso sca sto ves",
    ),
    "russian": _culture(
        "Alexei Alla Anatoly Andrei Anton Boris Daria Denis Dmitri Ekaterina Elena Fyodor Galina "
        "Gleb Igor Ilya Inna Ivan Kirill Konstantin Ksenia Larisa Lev Lidia Maxim Mikhail Nina "
        "Oleg Olga Pavel Polina Roman Ruslan Sergei Svetlana Taras Vadim Vera Yuri Zoya",
        "Arsen Bara Beln Bog Chern Dorok Golub Gran Kalin Karp Kor Laz Mor Novik Orl Petr Rod "
        "Sokol Tar Volk",
        "enko evich in insky ko kov ov ovich sky ushkin usov yanov",
    ),
    "japanese": _culture(
        "Aiko Akira Asami Atsushi Ayaka Chiyo Daichi Eiji Emi Fumiko Goro Hana Haruto Hiroshi "
        "Isamu Jun Kaori Kazuo Keiko Kenta Koji Mai Makoto Mariko Megumi Naoki Noriko Osamu Ren "
        "Riko Ryota Sachiko Satoru Shinji Sora Takumi Tomoko Yuki Yumi Yuto",
        "Aka Ao Fuji Fuku Haya Hira Ishi Kawa Kita Kuro Matsu Mina Mori Naka Nishi Oka Saka Shima "
        "Taka Yama",
        "da gawa guchi hara hashi i kawa moto mura no shita zaki",
    ),
    "korean": _culture(
        " ".join(f"{one}-{two}" for one in _KOREAN_FIRST.split() for two in _KOREAN_SECOND.split()),
        "Ahn Bae Baek Bang Cha Choi Chu Do Eom Gil Go Ha Han Heo Hong Hwang Jang Jeon Jin Jo Joo "
        "Jung Kang Kim Ko Kwon Lee Lim Ma Min Moon Na Nam No Oh Park Ryu Seo Seok Shin Sohn Song "
        "Suh Sung Um Wang Won Woo Yang Yeo Yoo Yoon",
        family_first=True,
    ),
    "chinese": _culture(
        "Ailin Baozhen Chaoyang Chenxi Daiyu Dongmei Enlai Fangfang Guowei Haoran Huilan Jianyu "
        "Jiayi Jingwen Junjie Kaiwen Lanfen Lihua Meiling Mingzhu Ningxin Peishan Qiang Qiuyue "
        "Rong Ruolan Shanshan Shuying Tianyu Weidong Wenjing Xiaobo Xinyi Xuefeng Yanmei Yichen "
        "Yulan Zhihao Zhilan Zhiyong",
        "Bai Cai Cao Chang Chen Cheng Cui Deng Ding Du Fan Fang Feng Fu Gao Gong Gu Guo Han Hao "
        "He Hou Hu Huang Jia Jiang Jin Kang Kong Lai Lei Li Liang Liao Lin Liu Lu Luo Ma Mao Meng "
        "Pan Peng Qian Qin Qiu Ren Shao Shen Shi Song Su Sun Tan Tang Tao Tian Wan Wang Wei Wu "
        "Xia Xiang Xiao Xie Xiong Xu Xue Yan Yang Yao Ye Yin Yu Yuan Zeng Zhang Zhao Zheng Zhou "
        "Zhu Zou",
        "_",
    ),
    "indian": _culture(
        "Aarav Aditi Ajay Amrita Anand Anjali Arjun Asha Bhavna Chandra Deepa Dev Divya Farhan "
        "Gauri Harish Indira Ishaan Jaya Kabir Kavita Kiran Lata Madhav Maya Meera Mohan Nandini "
        "Naveen Nisha Pooja Prakash Priya Rahul Rekha Rohan Sanjay Sunita Tara Vikram",
        "Acha Agar Bana Bhat Chau Chatt Desh Gho Gup Iyen Jos Kap Kul Mal Meh Mukh Nai Pand Rao "
        "Sax",
        "dhary ena erjee gar hi karni mukh oor ra ta wal ya",
    ),
    "arabic": _culture(
        "Adel Amal Amina Anwar Basma Dalia Farid Faten Ghada Hadi Hala Hamza Hanan Hisham Ibtisam "
        "Jamil Karim Laila Layth Lina Mahmoud Malak Mariam Nabil Nadia Najwa Omar Rami Rania "
        "Rashid Reem Salma Samir Sana Tarek Wafa Yasmin Youssef Zaid Zeinab",
        "Al-Ha Al-Kha Al-Ma Al-Na Al-Ra Al-Sa Ben-A Ben-Sa Bou-A Bou-Ha El-Ba El-Fa El-Ga El-Ka "
        "El-Ma El-Ra El-Sa El-Ta El-Wa El-Za",
        "bib dani di fidi ghribi hri leh lim mar nsour shid tib",
    ),
}
"""Cultures by name; each has several thousand names."""
