"""The tools of TODOList as agents are told of them, in this project's own words.

Names and parameters are the original's.
"""

from __future__ import annotations

from typing import Final

from env_servers.sdk import Parameter
from env_servers.toolkit.tool_calls import CHECK_VALID_ACTIONS, FINISH, Tool, ToolSet

__all__ = ["TOOLS"]

_PROJECT: Final = Parameter("project_id", "string", "Id of the project, from get_projects.")
_TODO: Final = Parameter("task_id", "string", "Id of the task, from get_tasks.")

TOOLS: Final = ToolSet(
    (
        Tool("get_user_current_date", "Tell which day it is for the user.", "A YYYY-MM-DD date."),
        Tool("get_user_current_location", "Tell in which city the user is.", "Name of the city."),
        Tool(
            "get_projects",
            "List the projects of the user's to-do account.",
            "A list of objects with id, order, color, name and is_favorite.",
        ),
        Tool(
            "update_project",
            "Make a project a favorite, or no longer one.",
            "A message and the project as it is now.",
            (_PROJECT, Parameter("is_favorite", "string", "The new mark.", enum=("True", "False"))),
        ),
        Tool(
            "get_tasks",
            "List the tasks of a project that are not completed.",
            "A list of objects with id, order, content (the task's name), is_completed, priority "
            "(1 is normal, 4 is urgent) and due_date.",
            (_PROJECT,),
        ),
        Tool(
            "get_task_description",
            "Read what is noted about a task, such as its place or hints.",
            "An object with id, content and description.",
            (_TODO,),
        ),
        Tool(
            "get_task_duration",
            "Tell how long a task takes.",
            "An object with id, content and duration, written as 'amount(unit)'.",
            (_TODO,),
        ),
        Tool(
            "complete_task",
            "Mark a task as completed.",
            "A message and the task.",
            (_TODO,),
        ),
        Tool(
            "update_task",
            "Give a task another due date.",
            "A message and the task as it is now.",
            (_TODO, Parameter("due_date", "string", "The new date, as YYYY-MM-DD.")),
        ),
        Tool("delete_task", "Remove a task for good.", "A message and the task.", (_TODO,)),
        CHECK_VALID_ACTIONS,
        FINISH,
    ),
    hints=(
        "Ids cannot be guessed: take project ids from get_projects and task ids from get_tasks.",
        "When the task is a question, hand in its answer with finish; when it asks for changes "
        "only, hand in 'done' once they are made.",
    ),
    example=("I have to find the project first, so I list all of them.", "get_projects", {}),
)
