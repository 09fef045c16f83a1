"""The kinds of tasks: small jobs on text files, each drawn from a generator with its solution.

A kind is a function of a `random.Random` and gives the same puzzle for the same generator.
Solutions are written for POSIX tools with the usual options of GNU's; they are the expert's, and
not the only ones.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from env_servers.environments.shell.puzzle import Move, Puzzle, Trial
from env_servers.environments.shell.tree import Tree

__all__ = ["KINDS"]

_FIRST: Final = (
    *("Ada", "Amir", "Bea", "Carlo", "Chen", "Dora", "Edda", "Emil", "Farid", "Gita", "Hana"),
    *("Igor", "Ines", "Jon", "Kira", "Lars", "Lena", "Malik", "Mira", "Nils", "Noor", "Olga"),
    *("Pavel", "Rosa", "Sami", "Tara", "Udo", "Vera", "Yusuf", "Zoe"),
)
_LAST: Final = (
    *("Abel", "Baker", "Costa", "Diaz", "Ekman", "Fuchs", "Grant", "Haas", "Iqbal", "Jensen"),
    *("Kowal", "Lopez", "Moran", "Novak", "Okafor", "Petit", "Quinn", "Rossi", "Silva", "Tanaka"),
)
_WORDS: Final = (
    *("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "harbor", "island", "jasper"),
    *("kestrel", "lagoon", "meadow", "nectar", "onyx", "pepper", "quartz", "river", "saffron"),
    *("timber", "umber", "velvet", "willow", "yarrow", "zephyr"),
)
_PATHS: Final = ("/", "/about", "/cart", "/help", "/login", "/news", "/search", "/shop")
_STATUSES: Final = (200, 200, 200, 301, 404, 404, 500, 503)
_REGIONS: Final = ("east", "north", "south", "west")
_SITES: Final = ("example.org", "example.net", "mail.example.com")


def _access_log(rng: random.Random) -> tuple[list[tuple[str, int]], str]:
    """Return the path and status of each line of a web server's log, and its text."""
    lines: list[str] = []
    hits: list[tuple[str, int]] = []
    addresses = [f"10.0.{rng.randrange(4)}.{number}" for number in rng.sample(range(1, 255), 12)]
    for _ in range(rng.randint(60, 160)):
        path, status = rng.choice(_PATHS), rng.choice(_STATUSES)
        # Some ask much more often than others.
        address = addresses[min(rng.randrange(12), rng.randrange(12))]
        minute = f"{rng.randrange(24):02}:{rng.randrange(60):02}"
        lines.append(f"{address} {minute} GET {path} {status} {rng.randrange(100, 9000)}")
        hits.append((path, status))
    return hits, "\n".join(lines) + "\n"


def _count(rng: random.Random) -> Puzzle:
    """How many lines of a log have a path and a status."""
    hits, log = _access_log(rng)
    path, status = rng.choice([hit for hit in hits if hit[0] != "/"])
    answer = hits.count((path, status))
    return Puzzle(
        kind="count",
        request=(
            "access.log has one request a line: address, time, method, path, status, bytes. How "
            f"many requests for {path} had status {status}? Write the number into answer.txt."
        ),
        start=Tree.of_texts({"access.log": log}),
        wanted={"answer.txt": str(answer)},
        solution=(
            Move("head -n 3 access.log", "First I look at what the lines look like."),
            Move(
                f"grep -c ' {path} {status} ' access.log > answer.txt",
                f"Path and status stand side by side, so I count the lines with {path} {status}.",
            ),
        ),
    )


def _frequent(rng: random.Random) -> Puzzle:
    """Which addresses asked most often."""
    most = rng.randint(2, 4)
    while True:
        _, log = _access_log(rng)
        counts = Counter(line.split()[0] for line in log.splitlines()).most_common()
        # The order must follow from the counts alone.
        if len({count for _, count in counts[: most + 1]}) == most + 1:
            break
    wanted = "\n".join(f"{count} {address}" for address, count in counts[:most])
    return Puzzle(
        kind="frequent",
        request=(
            f"Which {most} addresses asked most often? access.log has one request a line, which "
            "begins with the address. Write them into top.txt, the most frequent one first, one a "
            "line: the number of requests, a space, the address."
        ),
        start=Tree.of_texts({"access.log": log}),
        wanted={"top.txt": wanted},
        solution=(
            Move("head -n 3 access.log", "First I look at what the lines look like."),
            Move(
                "cut -d' ' -f1 access.log | sort | uniq -c | sort -rn | "
                f"head -n {most} | sed 's/^ *//' > top.txt",
                "The first field is the address. Sorted, equal ones can be counted, and the counts "
                "sorted.",
            ),
        ),
    )


def _total(rng: random.Random) -> Puzzle:
    """The sum of a column over the rows of one region."""
    rows = [
        (rng.choice(_WORDS), rng.choice(_REGIONS), rng.randrange(1, 500))
        for _ in range(rng.randint(40, 90))
    ]
    region = rng.choice(rows)[1]
    table = "product,region,amount\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows)
    return Puzzle(
        kind="total",
        request=(
            f"Add up the amounts of the region {region} in sales.csv and write the sum into "
            "total.txt."
        ),
        start=Tree.of_texts({"sales.csv": table}),
        wanted={"total.txt": str(sum(c for _, b, c in rows if b == region))},
        solution=(
            Move("head -n 3 sales.csv", "I look at the columns first."),
            Move(
                f"awk -F, '$2 == \"{region}\" {{ sum += $3 }} END {{ print sum }}' sales.csv > "
                "total.txt",
                f"The region is the second column, so I add up the third where it is {region}.",
            ),
        ),
    )


def _merge(rng: random.Random) -> Puzzle:
    """All names of several lists, once each."""
    names = rng.sample([f"{first} {last}" for first in _FIRST for last in _LAST], 30)
    parts = {
        f"guests/{word}.txt": "".join(f"{name}\n" for name in rng.sample(names, 12))
        for word in rng.sample(_WORDS, rng.randint(3, 5))
    }
    merged = sorted({name for text in parts.values() for name in text.splitlines()})
    return Puzzle(
        kind="merge",
        request=(
            "The files in guests/ list names, one a line. Write all names into all.txt, each once, "
            "in alphabetical order."
        ),
        start=Tree.of_texts(parts),
        wanted={"all.txt": "\n".join(merged)},
        solution=(
            Move("ls guests", "I want to know which lists there are."),
            Move("sort -u guests/*.txt > all.txt", "Sorting with -u leaves each name once."),
        ),
    )


def _collect(rng: random.Random) -> Puzzle:
    """Files of one ending, wherever they are, belong into one folder."""
    ending, *others = rng.sample(("log", "csv", "txt", "md"), 4)
    folders = [f"inbox/{word}" for word in rng.sample(_WORDS, 4)]
    stems = iter(rng.sample(_WORDS, 14))
    texts: dict[str, str] = {}
    moved: dict[str, str] = {}
    for folder in (folders[0], f"{folders[0]}/{folders[1][6:]}", *folders[2:]):
        for wanted in (ending, ending, rng.choice(others)):
            stem = next(stems)
            text = f"{stem} {rng.randrange(10_000)}\n"
            texts[f"{folder}/{stem}.{wanted}"] = text
            if wanted == ending:
                moved[f"{ending}s/{stem}.{ending}"] = text
    gone = frozenset(path for path in texts if path.endswith(f".{ending}"))
    return Puzzle(
        kind="collect",
        request=(
            f"Move every file whose name ends in .{ending}, however deep below inbox/ it is, into "
            f"the folder {ending}s/, which you have to make. Leave all other files where they are."
        ),
        start=Tree.of_texts(texts),
        wanted=moved,
        gone=gone,
        solution=(
            Move("find inbox -type f", "I look at where the files are."),
            Move(
                f"mkdir -p {ending}s && find inbox -name '*.{ending}' -exec mv {{}} {ending}s/ \\;",
                "find reaches every level, and mv takes each file over.",
            ),
        ),
    )


def _replace(rng: random.Random) -> Puzzle:
    """A host has another name in all settings, and in no other file."""
    old, new, *others = (f"{word}.internal" for word in rng.sample(_WORDS, 5))
    texts: dict[str, str] = {}
    for number, word in enumerate(rng.sample(_WORDS, 6)):
        hosts = [old, *rng.sample(others, 2), f"my-{old}.test"]
        rng.shuffle(hosts)
        body = "".join(f"host_{index} = {host}\n" for index, host in enumerate(hosts))
        suffix = "conf" if number < 4 else "md"
        texts[f"config/{word}.{suffix}"] = f"# {word}\n{body}port = {rng.randrange(1024, 9999)}\n"
    wanted = {
        path: text.replace(f"= {old}\n", f"= {new}\n")
        for path, text in texts.items()
        if path.endswith(".conf")
    }
    pattern = old.replace(".", "\\.")
    return Puzzle(
        kind="replace",
        request=(
            f"The host {old} is now called {new}. Change it in the .conf files in config/, where "
            "it is the whole value of a setting. Other hosts, whose names only contain it, and "
            "other files stay as they are."
        ),
        start=Tree.of_texts(texts),
        wanted=wanted,
        solution=(
            Move(f"grep -rn '{old}' config", "I look at where the name stands, and how."),
            Move(
                f"sed -i 's/= {pattern}$/= {new}/' config/*.conf",
                "The whole value stands between the equals sign and the end of the line.",
            ),
        ),
    )


def _extract(rng: random.Random) -> Puzzle:
    """Addresses of mail out of running text."""
    people = rng.sample([(first, last) for first in _FIRST for last in _LAST], 9)
    addresses = [f"{a.lower()}.{b.lower()}@{rng.choice(_SITES)}" for a, b in people]
    sentences = [
        form.format(name=f"{a} {b}", address=address)
        for (a, b), address in zip(people, addresses, strict=True)
        for form in rng.sample(_SENTENCES, rng.randint(1, 2))
    ]
    rng.shuffle(sentences)
    third = len(sentences) // 3 + 1
    texts = {
        f"letters/{number}.txt": " ".join(sentences[number * third : (number + 1) * third]) + "\n"
        for number in range(3)
    }
    return Puzzle(
        kind="extract",
        request=(
            "Collect the mail addresses in the files of letters/ and write them into "
            "addresses.txt, each once, one a line, in alphabetical order."
        ),
        start=Tree.of_texts(texts),
        wanted={"addresses.txt": "\n".join(sorted(set(addresses)))},
        solution=(
            Move("head -c 300 letters/0.txt", "I look at how addresses stand in the text."),
            Move(
                "grep -ohE '[a-z.]+@[a-z.]+[a-z]' letters/*.txt | sort -u > addresses.txt",
                "grep -o prints what matches; a dot at the end of a sentence is no part of it.",
            ),
        ),
    )


_SENTENCES: Final = (
    "Please write to {address}.",
    "{name} ({address}) will answer.",
    "Ask {name} at {address}, who knows more.",
    "A copy went to <{address}>; nobody replied.",
)


def _join(rng: random.Random) -> Puzzle:
    """What each customer spent, by name."""
    people = rng.sample([f"{first} {last}" for first in _FIRST for last in _LAST], 7)
    numbers = rng.sample(range(100, 999), len(people))
    names = {f"c{number}": name for number, name in zip(numbers, people, strict=True)}
    orders = [(rng.choice(list(names)), rng.randrange(5, 400)) for _ in range(35)]
    totals = Counter[str]()
    for customer, amount in orders:
        totals[names[customer]] += amount
    wanted = "\n".join(f"{name},{totals[name]}" for name in sorted(totals))
    return Puzzle(
        kind="join",
        request=(
            "customers.csv has lines id,name and orders.csv has lines id,amount; neither has a "
            "header. Write report.csv: for each customer with orders a line name,total, in "
            "alphabetical order of the names."
        ),
        start=Tree.of_texts(
            {
                "customers.csv": "".join(f"{key},{name}\n" for key, name in names.items()),
                "orders.csv": "".join(f"{key},{amount}\n" for key, amount in orders),
            }
        ),
        wanted={"report.csv": wanted},
        solution=(
            Move("head -n 2 customers.csv orders.csv", "I look at both files."),
            Move(
                "awk -F, 'NR == FNR { name[$1] = $2; next } { sum[name[$1]] += $2 } "
                'END { for (n in sum) print n "," sum[n] }\' customers.csv orders.csv | '
                "sort > report.csv",
                "The first file gives names by id, the second is added up by name.",
            ),
        ),
    )


def _script(rng: random.Random) -> Puzzle:
    """A script that has to work for files that nobody has seen."""
    first, second = rng.sample(_WORDS, 2)
    sample = _lines_of(rng, first, second)
    trials = tuple(
        Trial(
            f"sh ./count.sh {word} notes.txt",
            {"notes.txt": text},
            str(sum(word in line.split() for line in text.splitlines())),
        )
        for word, text in ((first, _lines_of(rng, first, second)), (second, sample))
    )
    return Puzzle(
        kind="script",
        request=(
            "Write a shell script count.sh. `sh count.sh WORD FILE` prints how many lines of FILE "
            "have WORD as a word of its own, between spaces or the ends of the line; words that "
            f"only contain it do not count. Try it on notes.txt, for example with {first}. It will "
            "be run with other words and files."
        ),
        start=Tree.of_texts({"notes.txt": sample}),
        wanted={},
        trials=trials,
        solution=(
            Move("head -n 4 notes.txt", "I look at an example first."),
            Move(
                "cat > count.sh <<'END'\n"
                """awk -v word="$1" '{ for (i = 1; i <= NF; i++) if ($i == word) { n++; next } } """
                """END { print n + 0 }' "$2"\nEND""",
                "awk has the words of a line as fields, so each line is counted once at most.",
            ),
            Move(f"sh count.sh {first} notes.txt", "I try it on the example."),
        ),
    )


def _lines_of(rng: random.Random, *wanted: str) -> str:
    """Return lines of words among which the wanted ones are, and longer words that contain them."""
    lines = [
        " ".join(
            rng.choice(
                (rng.choice(_WORDS), rng.choice(wanted), f"{rng.choice(wanted)}{rng.choice('s-x')}")
            )
            for _ in range(rng.randint(2, 6))
        )
        for _ in range(rng.randint(15, 40))
    ]
    return "\n".join(lines) + "\n"


KINDS: Final[Mapping[str, Callable[[random.Random], Puzzle]]] = {
    "count": _count,
    "total": _total,
    "merge": _merge,
    "frequent": _frequent,
    "collect": _collect,
    "replace": _replace,
    "extract": _extract,
    "join": _join,
    "script": _script,
}
"""By name; the tasks of a split go through them in turn."""
