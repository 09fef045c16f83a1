"""A small environment that keeps the contract, and one defect of each kind."""

from __future__ import annotations

import copy
import itertools
import os
import random
import re
from dataclasses import replace

from env_servers.sdk import (
    ActionFormat,
    Advice,
    ConversationStart,
    Environment,
    EnvironmentSpec,
    Grammar,
    Image,
    ImageType,
    MediaType,
    Observation,
    Parameter,
    RangeSplit,
    RangeTaskSet,
    StopReason,
    Task,
    UnknownItem,
    Verb,
    View,
)
from env_servers.toolkit.png import encode_png

STEP_LIMIT = 12
START = ConversationStart("Count down to zero.")
DOWN = Verb("down", "Subtract.", "down {by}", (Parameter("by", "integer"),))


def express(action):
    return "down", {"by": int(action.removeprefix("down "))}


def make_task(index):
    return Task(
        f"countdown_{index}", payload=3 + index % 5, category="odd" if index % 2 else "even"
    )


class CountdownTasks(RangeTaskSet):
    def __init__(self):
        super().__init__(
            "countdown",
            {
                "train": RangeSplit(1_000_000, 30, make_task),
                "eval": RangeSplit(1_000_030, 10, make_task),
            },
        )


class Countdown(Environment):
    """Reach zero exactly, by steps of one to three."""

    spec = EnvironmentSpec(
        name="countdown",
        version="1",
        description="Counts down.",
        grammar=Grammar((DOWN,), express=express),
        conversation_starts=dict.fromkeys(ActionFormat, START),
        max_rounds=10,
        has_views=True,
    )

    @classmethod
    def load_tasks(cls, config):
        return CountdownTasks()

    def reset(self, task, options):
        options.require(self.spec.profiles)
        self.left = task.payload
        self.history = []
        return Observation(f"{self.left} left")

    def step(self, action):
        self.history.append(action)
        found = re.fullmatch(r"down ([0-3])", action)
        self.left -= int(found[1]) if found else 0
        return self.answer()

    def answer(self):
        text = f"{self.left} left after {len(self.history)}"
        if self.left <= 0:
            won = self.left == 0
            reason = StopReason.GOAL_REACHED if won else StopReason.GOAL_FAILED
            return Observation(text, float(won), terminated=True, stop_reason=reason)
        if len(self.history) == STEP_LIMIT:
            return Observation(text, 0.0, truncated=True, stop_reason=StopReason.STEP_LIMIT)
        return Observation(text, 0.0)

    def fingerprint(self):
        return repr((self.left, len(self.history))).encode()

    def render(self):
        return [View("left", "Left", MediaType.TEXT, b"#" * self.left)]

    def advise_expert(self, seed):
        return Advice(f"down {min(3, self.left)}", f"{self.left} left ({seed})")

    def advise_random(self, rng):
        return Advice(f"down {rng.randint(1, 3)}")

    def advise_noop(self):
        return Advice("down 0")


def with_spec(**changes):
    return type("Changed", (Countdown,), {"spec": replace(Countdown.spec, **changes)})


# What it says about itself


class Nameless(Countdown):
    spec = replace(Countdown.spec, name="Count Down")


class Timeless(Countdown):
    spec = replace(Countdown.spec, max_rounds=0)


class WithoutReact(Countdown):
    spec = replace(Countdown.spec, conversation_starts={ActionFormat.FUNCTION_CALLING: START})


class WithoutExpress(Countdown):
    spec = replace(Countdown.spec, grammar=Grammar((DOWN,)))


class ForgottenParameter(Countdown):
    verb = Verb("down", "Subtract.", "down {amount}", (Parameter("by", "integer"),))
    spec = replace(Countdown.spec, grammar=Grammar((verb,), express=express))


class KeywordParameter(Countdown):
    verb = Verb("down", "Subtract.", "down {from}", (Parameter("from", "integer"),))
    spec = replace(Countdown.spec, grammar=Grammar((verb,), express=express))


# Its tasks


def with_tasks(tasks):
    class WithTasks(Countdown):
        @classmethod
        def load_tasks(cls, config):
            return tasks()

    return WithTasks


class OverstatedTasks(CountdownTasks):
    def splits(self):
        return {"train": 31, "eval": 10}


class OverlappingTasks(CountdownTasks):
    def item_ids(self, split, start, stop):
        return super().item_ids("train", start, stop)[: 10 if split == "eval" else None]


class OffByOnePages(CountdownTasks):
    def item_ids(self, split, start, stop):
        return super().item_ids(split, start, stop + (start > 0))


class RenamedTasks(CountdownTasks):
    def get(self, item_id):
        return replace(super().get(item_id), item_id="countdown_0")


class OtherCategories(CountdownTasks):
    def category(self, item_id):
        return "even"


class WholeIdsOnly(CountdownTasks):
    def get(self, item_id):
        if item_id.isdecimal():
            raise UnknownItem(f"unknown item {item_id!r}")
        return super().get(item_id)


class EchoedIds(CountdownTasks):
    def get(self, item_id):
        return replace(super().get(item_id), item_id=item_id)


class LookupErrors(CountdownTasks):
    def get(self, item_id):
        return {f"countdown_{index}": make_task(index) for index in range(1_000_000, 1_000_040)}[
            item_id
        ]


class AnySplit(CountdownTasks):
    def item_ids(self, split, start, stop):
        return super().item_ids(split, start, stop) if split in self.splits() else []


class DigestOfAddresses(CountdownTasks):
    def digest(self):
        return repr(object()).encode()


class UnstableDigest(Countdown):
    @classmethod
    def load_tasks(cls, config):
        return DigestOfAddresses()


class AnyProfile(Countdown):
    def reset(self, task, options):
        return super().reset(task, replace(options, profile="agentgym"))


class AnyOption(Countdown):
    def reset(self, task, options):
        return super().reset(task, replace(options, options={}))


class PromisedProfile(Countdown):
    spec = replace(Countdown.spec, profiles=("agentgym", "fixed"))

    def reset(self, task, options):
        options.require(("agentgym",))
        return super().reset(task, options)


# What it shows


def showing(**changes):
    class Showing(Countdown):
        def step(self, action):
            return super().step(action)._replace(**changes)

    return Showing


class NumpyLike(float):
    pass


class UndeclaredScore(Countdown):
    def step(self, action):
        return super().step(action)._replace(score=0.5)


class MissingScore(Countdown):
    spec = replace(Countdown.spec, has_score=True)


class WithoutReason(Countdown):
    def step(self, action):
        return super().step(action)._replace(stop_reason=StopReason.NONE)


class PlainText(Countdown):
    def step(self, action):
        return super().step(action).text


# Repetition and isolation


class GlobalRandom(Countdown):
    def answer(self):
        return super().answer()._replace(text=f"{random.random()}")


class ProcessCounter(Countdown):
    answers = itertools.count()

    def answer(self):
        return super().answer()._replace(text=f"{next(self.answers)}")


class HiddenCounter(Countdown):
    """Only the fingerprint differs."""

    answers = itertools.count()

    def fingerprint(self):
        return repr((super().fingerprint(), next(self.answers))).encode()


class HashOrder(Countdown):
    def answer(self):
        text = super().answer().text
        return super().answer()._replace(text=" ".join({*"abcdefgh", text}))


class SharedHistory(Countdown):
    shared = []

    def reset(self, task, options):
        observation = super().reset(task, options)
        self.shared.clear()
        self.history = self.shared
        return observation


class SeedsGlobalRandom(Countdown):
    def reset(self, task, options):
        random.seed(options.seed)
        return super().reset(task, options)

    def answer(self):
        return super().answer()._replace(text=f"{random.random()}")


class ShallowFork(Countdown):
    def fork(self):
        return copy.copy(self)


class ForgetfulFork(Countdown):
    def fork(self):
        twin = copy.deepcopy(self)
        twin.left += 1
        return twin


class SameFork(Countdown):
    def fork(self):
        return self


class CoarseFingerprint(Countdown):
    def fingerprint(self):
        return b"playing"


# Hostile input


class SplitsEmptyText(Countdown):
    def step(self, action):
        action.split()[0]
        return super().step(action)


class BelievesIsdigit(Countdown):
    def step(self, action):
        words = action.split()
        if len(words) == 2 and words[1].isdigit():
            int(words[1])
        return super().step(action)


class Recursive(Countdown):
    def step(self, action):
        def depth(text):
            return 1 + depth(text[1:]) if text[:1] in ("[", "(") else 0

        depth(action)
        return super().step(action)


class RepeatsEverything(Countdown):
    def step(self, action):
        half = action.encode()[: len(action) // 2]
        return super().step(action)._replace(text=half.decode(errors="surrogateescape"))


class RaisingReader(Countdown):
    grammar = Grammar((DOWN,), read_react=lambda reply: reply.split("Action:")[1], express=express)
    spec = replace(Countdown.spec, grammar=grammar)


class ReaderOfNone(Countdown):
    grammar = Grammar((DOWN,), read_react=lambda reply: None, express=express)
    spec = replace(Countdown.spec, grammar=grammar)


class CountsRejections(Countdown):
    def render_error(self, message, last):
        self.history.append("")
        return super().render_error(message, last)


# Players


class LazyExpert(Countdown):
    def advise_expert(self, seed):
        return Advice("down 0", "Tomorrow.")


class SlowExpert(Countdown):
    spec = replace(Countdown.spec, max_rounds=2)

    def advise_expert(self, seed):
        return Advice("down 1", "Slowly.")


class ExpertWithMemory(Countdown):
    asked = 0

    def advise_expert(self, seed):
        self.asked += 1
        return Advice(f"down {1 + self.asked % 2 if self.left > 2 else self.left}", "By turns.")


class ExpertThatActs(Countdown):
    def advise_expert(self, seed):
        self.history.append("")
        return super().advise_expert(seed)


class ExpertOfMoods(Countdown):
    def advise_expert(self, seed):
        return Advice(f"down {1 + seed % min(3, self.left)}", "As I feel.")


class SilentExpert(Countdown):
    def advise_expert(self, seed):
        return super().advise_expert(seed)._replace(thought="")


class WrongExpress(Countdown):
    grammar = Grammar((DOWN,), express=lambda action: ("down", {"by": 1}))
    spec = replace(Countdown.spec, grammar=grammar)


class Unspeakable(Countdown):
    def advise_noop(self):
        return Advice("wait")


class RandomFails(Countdown):
    def advise_random(self, rng):
        if self.left < 3:
            raise KeyError(self.left)
        return Advice("down 1")


class RandomOfTheProcess(Countdown):
    def advise_random(self, rng):
        return Advice(f"down {random.randint(1, 3)}")


class RewardsPatience(Countdown):
    def answer(self):
        answer = super().answer()
        return answer._replace(reward=1.0) if answer.truncated else answer

    spec = replace(Countdown.spec, max_rounds=STEP_LIMIT)


# Its views


def drawing(content, media_type=MediaType.HTML, name="left"):
    class Drawing(Countdown):
        def render(self):
            return [View(name, "Left", media_type, content)]

    return Drawing


class WithoutPen(Countdown):
    def render(self):
        return []


class BlindAtTheEnd(Countdown):
    def render(self):
        return super().render() * (self.left > 0)


class Believer(Countdown):
    def render(self):
        said = "".join(self.history[-1:])
        return [View("said", "Said", MediaType.HTML, f"<p>{said}</p>".encode())]


class RawTerminal(Countdown):
    def render(self):
        return [View("said", "Said", MediaType.TEXT, "".join(self.history[-1:]).encode())]


class Observer(Countdown):
    """Being looked at changes it."""

    def render(self):
        self.history.append("")
        return super().render()


class OtherPaper(Countdown):
    looks = itertools.count()

    def render(self):
        return [View("left", "Left", MediaType.TEXT, b"%d" % next(self.looks))]


class PaperOfTheEpisode(Countdown):
    episodes = itertools.count()

    def reset(self, task, options):
        self.number = next(self.episodes)
        return super().reset(task, options)

    def render(self):
        return [View("left", "Left", MediaType.TEXT, b"%d" % self.number)]


# Images


class Sighted(Countdown):
    """Shows what is left, where that is asked for."""

    spec = replace(Countdown.spec, has_images=True)

    def reset(self, task, options):
        options.require(self.spec.profiles, ("images",))
        self.shows = options.wants("images")
        return self.seen(super().reset(task, replace(options, options={})))

    def step(self, action):
        return self.seen(super().step(action))

    def seen(self, observation):
        return observation._replace(images=self.draw() if self.shows else ())

    def draw(self):
        color = bytes((self.left % 256, 0, 0))
        return (Image(ImageType.PNG, encode_png(1, b"\0", color)),)


class Unseen(Sighted):
    def draw(self):
        return ()


class Mislabelled(Sighted):
    def draw(self):
        return (Image(ImageType.PNG, b"GIF89a"),)


class OtherFilm(Sighted):
    """Each process has another one."""

    def draw(self):
        return (Image(ImageType.PNG, super().draw()[0].content + b"%d" % os.getpid()),)
