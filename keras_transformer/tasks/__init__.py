"""The tasks of a model: translation and constituency parsing.

The same training program, search and export serve every task.
"""

from keras_transformer.support.fields import check_values, one_of
from keras_transformer.tasks.parsing.parsing_task import ParsingTask
from keras_transformer.tasks.task import Task
from keras_transformer.tasks.translation import TranslationTask

__all__ = ["ParsingTask", "Task", "TranslationTask", "find_task"]

TASKS: dict[str, Task] = {x.name: x for x in (TranslationTask(), ParsingTask())}


def find_task(name: str) -> Task:
    """Returns the task with the name that a run records."""
    check_values(one_of(*TASKS), task=name)
    return TASKS[name]
