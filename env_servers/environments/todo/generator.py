"""Embedded to-do tasks: a seeded world and a goal in it.

For each kind of goal: its wordings, and what solves it (look-ups, changes, answer). An index is a
task for ever: nothing but it is drawn from, and changing the order of draws changes tasks. Train
and eval worlds have different themes, so no project or task of one split occurs in the other.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from env_servers.environments.todo.store import ProjectSeed, TodoSeed, TodoStore, World
from env_servers.environments.todo.task_spec import Lookup, TaskSpec, current_end_state
from env_servers.environments.todo.vocabulary import (
    BRING,
    CITIES,
    EVAL_THEMES,
    HINTS,
    PEOPLE,
    PLACES,
    TRAIN_THEMES,
)

__all__ = ["CHAINS", "KINDS", "make_task_spec", "task_kind"]

CHAINS: Final = range(1, 7)
"""Calls that a goal takes before `finish`."""
_DURATIONS: Final = (15, 20, 30, 40, 45, 60, 75, 90, 100, 120)
_NUMBER: Final = " Please answer in the form of a number."
_LIST: Final = " Please answer in the form of a list ['task1', 'task2', ...]."
_YES: Final = " Please answer Yes or No."
_DATE: Final = " Please answer in the 'YYYY-MM-DD' format."
_NAME: Final = " Please answer with the name."
_STRING: Final = " Please answer in the form of a string."
_SPAN: Final = " Please answer in the format of 'number(unit)'."
_PROJECTS: Final = Lookup("get_projects")
_TODAY: Final = Lookup("get_user_current_date")


@dataclass(slots=True)
class Draft:
    """A goal under construction."""

    wordings: tuple[str, ...]
    answer: object = "done"
    lookups: tuple[Lookup, ...] = ()
    due: dict[str, str] = field(default_factory=dict[str, str])
    """New dates, by task."""
    gone: tuple[str, ...] = ()
    """Tasks that vanish."""
    favourite: tuple[str, bool] | None = None
    removal: str = "complete_task"

    @property
    def chain(self) -> int:
        """Calls before `finish`."""
        changes = len(self.due) + len(self.gone) + (self.favourite is not None)
        return len(self.lookups) + changes


@dataclass(frozen=True, slots=True)
class Scene:
    """A world and a day in it, from which goals are drawn."""

    rng: random.Random
    world: World
    date: datetime.date
    city: str

    def project(self, least: int = 1) -> ProjectSeed:
        """Return a project with at least so many tasks."""
        return self.rng.choice([p for p in self.world.projects if len(p.todos) >= least])

    def todo(self) -> tuple[ProjectSeed, TodoSeed]:
        """Any task with its project."""
        return self.rng.choice(list(self.world.todos()))

    def later(self, days: int) -> str:
        """Return the date so many days from today."""
        return shifted(self.date.isoformat(), days)


def shifted(date: str, days: int) -> str:
    """Return a date, so many days later."""
    return (datetime.date.fromisoformat(date) + datetime.timedelta(days)).isoformat()


def task_kind(index: int) -> str:
    """Sort of goal of a task, by its index."""
    return _NAMES[index % len(_NAMES)]


def make_task_spec(index: int, *, held_out: bool) -> TaskSpec:
    """Return the task of an index."""
    kind = task_kind(index)
    attempt = 0
    while True:
        rng = random.Random(f"todo:{held_out}:{index}:{attempt}")
        scene = _scene(rng, EVAL_THEMES if held_out else TRAIN_THEMES)
        draft = KINDS[kind](scene)
        if draft is not None and draft.chain in CHAINS:
            return _finished(scene, draft, kind, index)
        attempt += 1


def _scene(rng: random.Random, themes: dict[str, tuple[str, ...]]) -> Scene:
    date = datetime.date(2024, 1, 10) + datetime.timedelta(rng.randrange(900))
    names = rng.sample(sorted(themes), rng.randint(3, 5))
    projects = [
        ProjectSeed(
            name,
            tuple(
                _todo(rng, content, date) for content in rng.sample(themes[name], rng.randint(2, 5))
            ),
            is_favorite=rng.random() < 0.25,
            sections=("Later",) if rng.random() < 0.3 else (),
        )
        for name in names
    ]
    return Scene(rng, World(tuple(projects)), date, rng.choice(CITIES))


def _todo(rng: random.Random, content: str, date: datetime.date) -> TodoSeed:
    lines = (
        f"- Place: {rng.choice(PLACES)}",
        f"- Contact: {rng.choice(PEOPLE)}",
        f"- Bring: {rng.choice(BRING)}",
        f"- Hint: {rng.choice(HINTS)}",
    )
    return TodoSeed(
        content,
        shifted(date.isoformat(), rng.randint(-6, 20)),
        rng.randint(1, 4),
        "\n".join(lines),
        rng.choice(_DURATIONS),
        comments=("Moved here from the paper list.",) if rng.random() < 0.1 else (),
    )


def _finished(scene: Scene, draft: Draft, kind: str, index: int) -> TaskSpec:
    store = TodoStore.of(scene.world)
    by_content = {todo.content: todo.id for todo in store.todos()}
    for content, date in draft.due.items():
        store.update_todo(by_content[content], due_date=date)
    for content in draft.gone:
        store.complete_todo(by_content[content])
    if draft.favourite is not None:
        name, is_favorite = draft.favourite
        project = next(project for project in store.projects() if project.name == name)
        store.update_project(project.id, is_favorite=is_favorite)
    return TaskSpec(
        scene.world,
        scene.rng.choice(draft.wordings),
        draft.answer,
        current_end_state(store),
        scene.date.isoformat(),
        scene.city,
        draft.lookups,
        draft.removal,
        kind,
        index,
    )


def _in(project: ProjectSeed, *more: Lookup) -> tuple[Lookup, ...]:
    """Looking into a project."""
    return (_PROJECTS, Lookup("get_tasks", project.name), *more)


def _everywhere(scene: Scene) -> tuple[Lookup, ...]:
    """Looking into every project."""
    return (_PROJECTS, *(Lookup("get_tasks", project.name) for project in scene.world.projects))


def _names(todos: Iterable[TodoSeed]) -> list[str]:
    return sorted(todo.content for todo in todos)


# -- queries --------------------------------------------------------------------------------


def _project_count(scene: Scene) -> Draft:
    return Draft(
        (
            "How many projects are there in my account?" + _NUMBER,
            "Count the projects on my to-do list." + _NUMBER,
        ),
        len(scene.world.projects),
        (_PROJECTS,),
    )


def _favourites(scene: Scene) -> Draft | None:
    names = sorted(p.name for p in scene.world.projects if p.is_favorite)
    if not names:
        return None
    form = " Please answer in the form of a list ['project1', 'project2', ...]."
    return Draft(
        ("Which of my projects are favorites?" + form, "List my favorite projects." + form),
        names,
        (_PROJECTS,),
    )


def _about_todo(
    scene: Scene,
    wordings: tuple[str, ...],
    form: str,
    answer: Callable[[TodoSeed], object],
    tool: str = "",
) -> Draft:
    """A question about one task, whose answer its project's list or one more look-up tells."""
    project, todo = scene.todo()
    return Draft(
        tuple(w.format(todo=todo.content, project=project.name) + form for w in wordings),
        answer(todo),
        _in(project, *((Lookup(tool, todo.content),) if tool else ())),
    )


def _described(label: str, todo: TodoSeed) -> str:
    """What a task's description says under a label."""
    line = next(x for x in todo.description.splitlines() if x.startswith(f"- {label}: "))
    return line.removeprefix(f"- {label}: ")


def _count_by_priority(scene: Scene) -> Draft:
    project = scene.project()
    level = scene.rng.randint(1, 4)
    return Draft(
        (
            f"How many tasks of priority {level} does the {project.name} project have?" + _NUMBER,
            f"Count the tasks with priority {level} in {project.name}." + _NUMBER,
        ),
        sum(todo.priority == level for todo in project.todos),
        _in(project),
    )


def _due_before(scene: Scene) -> Draft:
    project = scene.project()
    date = scene.later(scene.rng.randint(2, 12))
    return Draft(
        (
            f"Which tasks of the {project.name} project are due before {date}?" + _LIST,
            f"In {project.name}, what has to be done before {date}?" + _LIST,
        ),
        _names(todo for todo in project.todos if todo.due_date < date),
        _in(project),
    )


def _any_urgent(scene: Scene) -> Draft:
    project = scene.project()
    level = scene.rng.randint(2, 4)
    is_urgent = any(todo.priority >= level for todo in project.todos)
    return Draft(
        (
            f"Does any task of {project.name} have priority {level} or higher?" + _YES,
            f"Is there a task with priority {level} or above in the {project.name} project?" + _YES,
        ),
        "Yes" if is_urgent else "No",
        _in(project),
    )


def _earliest(scene: Scene) -> Draft | None:
    project = scene.project(2)
    ordered = sorted(project.todos, key=lambda todo: todo.due_date)
    if ordered[0].due_date == ordered[1].due_date:
        return None
    return Draft(
        (
            f"Which task of the {project.name} project is due first?" + _NAME,
            f"What comes first by due date in {project.name}?" + _NAME,
        ),
        ordered[0].content,
        _in(project),
    )


def _overdue(scene: Scene) -> Draft:
    project = scene.project(2)
    today = scene.date.isoformat()
    return Draft(
        (
            f"How many tasks of {project.name} were due before today?" + _NUMBER,
            f"Count the tasks of the {project.name} project whose due date is already past."
            + _NUMBER,
        ),
        sum(todo.due_date < today for todo in project.todos),
        (_TODAY, *_in(project)),
    )


def _two_dates(scene: Scene) -> Draft | None:
    (one, first), (two, second) = scene.todo(), scene.todo()
    if one == two:
        return None
    form = " Please answer in the format of a list ['YYYY-MM-DD', 'YYYY-MM-DD']."
    return Draft(
        (
            f'When are "{first.content}" ({one.name}) and "{second.content}" ({two.name}) due?'
            + form,
        ),
        sorted([first.due_date, second.due_date]),
        _in(one, Lookup("get_tasks", two.name)),
    )


def _longer(scene: Scene) -> Draft | None:
    project = scene.project(2)
    one, two = scene.rng.sample(project.todos, 2)
    if one.duration == two.duration:
        return None
    return Draft(
        (
            f'Which takes longer in {project.name}, "{one.content}" or "{two.content}"?' + _NAME,
            f'Does "{one.content}" or "{two.content}" of the {project.name} project need more time?'
            + _NAME,
        ),
        max(one, two, key=lambda todo: todo.duration).content,
        _in(
            project,
            Lookup("get_task_duration", one.content),
            Lookup("get_task_duration", two.content),
        ),
    )


def _total_duration(scene: Scene, count: int) -> Draft | None:
    fitting = [project for project in scene.world.projects if len(project.todos) == count]
    if not fitting:
        return None
    project = scene.rng.choice(fitting)
    return Draft(
        (
            f"How many minutes do all tasks of the {project.name} project take together?" + _NUMBER,
            f"Add up the durations of everything in {project.name}, in minutes." + _NUMBER,
        ),
        sum(todo.duration for todo in project.todos),
        _in(project, *(Lookup("get_task_duration", todo.content) for todo in project.todos)),
    )


def _largest(scene: Scene) -> Draft | None:
    sizes = sorted((len(project.todos) for project in scene.world.projects), reverse=True)
    if sizes[0] == sizes[1]:
        return None
    largest = max(scene.world.projects, key=lambda project: len(project.todos))
    return Draft(
        (
            "Which project has the most tasks?" + _NAME,
            "Where are most of my tasks, by project?" + _NAME,
        ),
        largest.name,
        _everywhere(scene),
    )


def _total_overdue(scene: Scene) -> Draft:
    today = scene.date.isoformat()
    return Draft(
        (
            "Across all projects, how many tasks were due before today?" + _NUMBER,
            "Until today, how many of my tasks are past their due date?" + _NUMBER,
        ),
        sum(todo.due_date < today for _, todo in scene.world.todos()),
        (_TODAY, *_everywhere(scene)),
    )


# -- operations -----------------------------------------------------------------------------


def _favour(scene: Scene) -> Draft:
    project = scene.project()
    wordings = (
        (f'Please remove "{project.name}" from my favorites.',)
        if project.is_favorite
        else (
            f'Please mark the project "{project.name}" as a favorite.',
            f"Make {project.name} one of my favorite projects.",
        )
    )
    return Draft(wordings, lookups=(_PROJECTS,), favourite=(project.name, not project.is_favorite))


def _remove(scene: Scene, wordings: tuple[str, ...], removal: str) -> Draft:
    project, todo = scene.todo()
    return Draft(
        tuple(w.format(todo=todo.content, project=project.name) for w in wordings),
        lookups=_in(project),
        gone=(todo.content,),
        removal=removal,
    )


def _set_date(scene: Scene) -> Draft | None:
    project, todo = scene.todo()
    date = scene.later(scene.rng.randint(1, 30))
    if date == todo.due_date:
        return None
    return Draft(
        (
            f'Please move "{todo.content}" in {project.name} to {date}.',
            f'Set the due date of "{todo.content}" ({project.name}) to {date}.',
        ),
        lookups=_in(project),
        due={todo.content: date},
    )


def _postpone(scene: Scene) -> Draft | None:
    project, todo = scene.todo()
    days = scene.rng.randint(1, 6)
    date = scene.later(days)
    if date == todo.due_date:
        return None
    when = "tomorrow" if days == 1 else f"{days} days from today"
    return Draft(
        (f'Please make "{todo.content}" in the {project.name} project due {when}.',),
        lookups=(_TODAY, *_in(project)),
        due={todo.content: date},
    )


def _shift_project(scene: Scene, count: int) -> Draft | None:
    fitting = [project for project in scene.world.projects if len(project.todos) == count]
    if not fitting:
        return None
    project = scene.rng.choice(fitting)
    days = scene.rng.choice((-2, -1, 1, 3, 7))
    amount = "one day" if abs(days) == 1 else f"{abs(days)} days"
    direction = "earlier" if days < 0 else "later"
    return Draft(
        (f"Move the due dates of all tasks in {project.name} {amount} {direction}.",),
        lookups=_in(project),
        due={todo.content: shifted(todo.due_date, days) for todo in project.todos},
    )


def _clear(scene: Scene, removal: str) -> Draft | None:
    """Complete or delete everything that fits a condition, two tasks or more."""
    project = scene.project(2)
    level = scene.rng.randint(1, 4)
    date = scene.later(scene.rng.randint(1, 12))
    condition, fits = scene.rng.choice(
        (
            (f"with a priority of {level}", lambda todo: todo.priority == level),
            (f"due before {date}", lambda todo: todo.due_date < date),
        )
    )
    fitting: Sequence[TodoSeed] = [todo for todo in project.todos if fits(todo)]
    if len(fitting) < 2:
        return None
    wording = (
        f"Mark all tasks in {project.name} {condition} as completed."
        if removal == "complete_task"
        else f"Delete all tasks in {project.name} {condition}."
    )
    return Draft(
        (wording,),
        lookups=_in(project),
        gone=tuple(todo.content for todo in fitting),
        removal=removal,
    )


def _clear_and_count(scene: Scene) -> Draft | None:
    """Word an operation first, then a question about what is left."""
    draft = _clear(scene, "complete_task")
    if draft is None:
        return None
    name = draft.lookups[-1].subject
    project = next(project for project in scene.world.projects if project.name == name)
    left = [todo for todo in project.todos if todo.content not in draft.gone]
    draft.wordings = (
        f"{draft.wordings[0]} Then tell me how many tasks that project still has." + _NUMBER,
    )
    draft.answer = len(left)
    return draft


def _finish_longest(scene: Scene) -> Draft | None:
    project = scene.project(2)
    ordered = sorted(project.todos, key=lambda todo: -todo.duration)
    if ordered[0].duration == ordered[1].duration:
        return None
    return Draft(
        (
            f"Complete the task of {project.name} that takes the longest, then tell me its name."
            + _NAME,
        ),
        ordered[0].content,
        _in(project, *(Lookup("get_task_duration", todo.content) for todo in project.todos)),
        gone=(ordered[0].content,),
    )


def _reschedule_overdue(scene: Scene) -> Draft | None:
    project = scene.project(2)
    today = scene.date.isoformat()
    late = [todo for todo in project.todos if todo.due_date < today]
    if not late:
        return None
    return Draft(
        (f"Set every task of {project.name} that was due before today to tomorrow.",),
        lookups=(_TODAY, *_in(project)),
        due={todo.content: scene.later(1) for todo in late},
    )


KINDS: Final[dict[str, Callable[[Scene], Draft | None]]] = {
    "favorites": _favourites,
    "count projects": _project_count,
    "due date": partial(
        _about_todo,
        wordings=(
            'When is "{todo}" in the {project} project due?',
            'By what date must I finish "{todo}" ({project})?',
        ),
        form=_DATE,
        answer=lambda todo: todo.due_date,
    ),
    "priority": partial(
        _about_todo,
        wordings=(
            'Which priority does "{todo}" have in the {project} project?',
            'How urgent is "{todo}" ({project}), as a priority level?',
        ),
        form=_NUMBER,
        answer=lambda todo: todo.priority,
    ),
    "count by priority": _count_by_priority,
    "due before": _due_before,
    "any urgent": _any_urgent,
    "earliest": _earliest,
    "duration": partial(
        _about_todo,
        wordings=(
            'How long does "{todo}" in the {project} project take?',
            'What duration is planned for "{todo}" ({project})?',
        ),
        form=_SPAN,
        answer=lambda todo: f"{todo.duration}({todo.duration_unit})",
        tool="get_task_duration",
    ),
    "place": partial(
        _about_todo,
        wordings=(
            'Where does "{todo}" in the {project} project take place?',
            'What place is noted for "{todo}" ({project})?',
        ),
        form=_STRING,
        answer=partial(_described, "Place"),
        tool="get_task_description",
    ),
    "contact": partial(
        _about_todo,
        wordings=(
            'Whom do I contact about "{todo}" in {project}?',
            'Who is the contact for "{todo}" of the {project} project?',
        ),
        form=_STRING,
        answer=partial(_described, "Contact"),
        tool="get_task_description",
    ),
    "equipment": partial(
        _about_todo,
        wordings=(
            'What do I have to bring for "{todo}" in {project}?',
            'What does the note on "{todo}" ({project}) tell me to bring?',
        ),
        form=_STRING,
        answer=partial(_described, "Bring"),
        tool="get_task_description",
    ),
    "overdue": _overdue,
    "two dates": _two_dates,
    "longer": _longer,
    "total duration of 3": partial(_total_duration, count=3),
    "total duration of 4": partial(_total_duration, count=4),
    "largest project": _largest,
    "overdue everywhere": _total_overdue,
    "set favorite": _favour,
    "complete": partial(
        _remove,
        wordings=(
            'I have finished "{todo}" of the {project} project; mark it as done.',
            'Please complete the task "{todo}" in {project}.',
        ),
        removal="complete_task",
    ),
    "delete": partial(
        _remove,
        wordings=(
            'Please delete the task "{todo}" from the {project} project.',
            '"{todo}" in {project} is not needed any more; remove it.',
        ),
        removal="delete_task",
    ),
    "set date": _set_date,
    "postpone": _postpone,
    "shift 2": partial(_shift_project, count=2),
    "shift 3": partial(_shift_project, count=3),
    "shift 4": partial(_shift_project, count=4),
    "complete several": partial(_clear, removal="complete_task"),
    "delete several": partial(_clear, removal="delete_task"),
    "complete and count": _clear_and_count,
    "complete longest": _finish_longest,
    "reschedule overdue": _reschedule_overdue,
}
"""Sorts of goals; an index takes them in turn."""
_NAMES: Final = tuple(KINDS)
