"""The simulator's mutable globals, and how an instance gets its own before every call.

The simulator was written for one instance per process: its random generator, its counter of object
ids and its list of simplifications are globals. Here each instance owns the three, and a call is
one Java function that puts them in place, makes the step, takes the counter back, and answers with
one string. So a step costs one round trip. The function is composed of method handles.

Between two calls the globals hold anything at all; whoever calls installs first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from env_servers.environments.sciworld.jvm import Jvm

__all__ = ["Globals", "Own"]


@dataclass(frozen=True, slots=True)
class Own:
    """One instance's values of the globals, as Java objects."""

    random: Any
    """java.util.Random."""
    simplifications: Any
    """ArrayBuffer[Simplification]."""
    count: Any
    """long[1]: the last object id."""


class Globals:
    """Installs an instance's globals, and builds step functions that do."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        java = jvm.classes.java
        self._handles = java.lang.invoke.MethodHandles
        self._type_of = java.lang.invoke.MethodType.methodType
        self._lookup = self._handles.publicLookup()
        self._random = self._static("scala.util.Random$", "MODULE$")
        self._random_field = self._field("scala.util.Random", "self")
        processor = "main.scala.scienceworld.runtime.SimplifierProcessor$"
        self._processor = self._static(processor, "MODULE$")
        self._processor_field = self._field(processor, "simplifications")
        self._ids = self._static("util.UniqueIdentifier$", "MODULE$")
        self._ids_field = self._field("util.UniqueIdentifier$", "count")
        self._step = self._compose()
        self._join = self._as_function(self._joiner())

    def fresh(self) -> Own:
        """Values for a new instance; loading it seeds the generator."""
        classes = self._jvm.classes
        return Own(
            classes.java.util.Random(),
            classes.scala.collection.mutable.ArrayBuffer(),
            self._jvm.array(classes.long, 0),
        )

    def install(self, own: Own, *, scratch: bool = False) -> None:
        """Put an instance's values in place; `scratch` lends a generator that may be spoilt."""
        random = self._jvm.classes.java.util.Random(0) if scratch else own.random
        self._random_field.set(self._random, random)
        self._processor_field.set(self._processor, own.simplifications)
        self._ids_field.set(self._ids, own.count[0])

    def save(self, own: Own) -> None:
        """Take the counter back after a call that was made directly."""
        own.count[0] = self._ids_field.get(self._ids)

    def step_function(self, interface: Any, own: Own) -> Any:
        """Return a java.util.function.Function from an action to `moves(text,score,completed)`."""
        bound = self._bind(self._step, interface, own.random, own.simplifications, own.count)
        return self._as_function(bound)

    def listed(self, array: Any) -> list[str]:
        """Return the strings of a Java array that hold no line break, in one round trip."""
        joined: str = self._join.apply(array)
        return joined.split("\n") if joined else []

    def _joiner(self) -> Any:
        """(array) -> its strings, joined by line breaks."""
        texts, text = self._class("[Ljava.lang.CharSequence;"), "java.lang.CharSequence"
        join = self._method(self._class("java.lang.String"), "join", self._class(text), texts)
        return join.asFixedArity().bindTo("\n")

    def _as_function(self, handle: Any) -> Any:
        """Return a method handle of one argument as a java.util.function.Function."""
        anything = self._class("java.lang.Object")
        general = handle.asType(self._type_of(anything, anything))
        function = self._class("java.util.function.Function")
        proxies = self._jvm.classes.java.lang.invoke.MethodHandleProxies
        return proxies.asInterfaceInstance(function, general)

    def _compose(self) -> Any:
        """(interface, random, simplifications, count, action) -> String, as one method handle."""
        handles, fold = self._handles, self._handles.foldArguments
        interface, random = self._class("scienceworld.runtime.AgentInterface"), "java.util.Random"
        random, text = self._class(random), self._class("java.lang.String")
        buffer = self._class("scala.collection.mutable.ArrayBuffer")
        longs = self._class("[J")

        step = self._method(interface, "step", text)
        as_text = self._method(self._class("java.lang.Object"), "toString")
        step = handles.filterReturnValue(step, as_text.asType(self._type_of(text, self._tuple())))
        moves = self._method(interface, "getCurIterations")
        moves = handles.filterReturnValue(moves, self._method(text, "valueOf", self._int()))
        joined = handles.collectArguments(self._method(text, "concat", text), 0, moves)

        count_in = self._lookup.unreflectSetter(self._ids_field).bindTo(self._ids)
        count_out = self._lookup.unreflectGetter(self._ids_field).bindTo(self._ids)
        first = self._bind_at(handles.arrayElementGetter(longs), 1, 0)
        set_first = self._bind_at(handles.arrayElementSetter(longs), 1, 0)
        restore = handles.collectArguments(count_in, 0, first)
        save = handles.collectArguments(set_first, 1, count_out)
        set_random = self._lookup.unreflectSetter(self._random_field).bindTo(self._random)
        set_simple = self._lookup.unreflectSetter(self._processor_field).bindTo(self._processor)

        # What follows the step: (count, interface, text) -> moves + text, the counter saved first.
        after = fold(self._drop(joined, 0, longs), save)
        order = self._jvm.array(self._jvm.classes.int, 4, 1, 0)
        whole = self._type_of(text, self._classes(text, interface, random, buffer, longs, text))
        after = handles.permuteArguments(after, whole, order)
        composed = fold(after, self._drop(step, 1, random, buffer, longs))
        # What precedes it, last first.
        composed = fold(composed, self._drop(restore, 0, interface, random, buffer))
        composed = fold(composed, self._drop(set_simple, 0, interface, random))
        return fold(composed, self._drop(set_random, 0, interface))

    def _class(self, name: str) -> Any:
        return self._jvm.classes.java.lang.Class.forName(name)

    def _tuple(self) -> Any:
        return self._class("scala.Tuple3")

    def _int(self) -> Any:
        return self._field("java.lang.Integer", "TYPE").get(None)

    def _classes(self, *kinds: Any) -> Any:
        return self._jvm.array(self._jvm.classes.java.lang.Class, *kinds)

    def _field(self, owner: str, name: str) -> Any:
        field = self._class(owner).getDeclaredField(name)
        if not owner.startswith("java."):
            field.setAccessible(True)
        return field

    def _static(self, owner: str, name: str) -> Any:
        return self._field(owner, name).get(None)

    def _method(self, owner: Any, name: str, *parameters: Any) -> Any:
        return self._lookup.unreflect(owner.getMethod(name, self._classes(*parameters)))

    def _drop(self, handle: Any, position: int, *kinds: Any) -> Any:
        return self._handles.dropArguments(handle, position, self._classes(*kinds))

    def _bind(self, handle: Any, *values: Any) -> Any:
        return self._bind_at(handle, 0, *values)

    def _bind_at(self, handle: Any, position: int, *values: Any) -> Any:
        objects = self._jvm.array(self._jvm.classes.java.lang.Object, *values)
        return self._handles.insertArguments(handle, position, objects)
