"""`antiphon eval --list-tasks`: the names of tasks and settings."""

from __future__ import annotations


def print_tasks() -> None:
    from antiphon.evaluation.settings import KEYS
    from antiphon.evaluation.tasks.registry import TASKS, task_class
    from antiphon.weights.catalog.model_tasks import TASK_NAMES

    width = max(map(len, TASKS))
    print("tasks")
    for name in TASKS:
        kind = task_class(name)
        sample = ", with a sample" if kind.sample is not None else ""
        print(f"  {name:{width}}  {kind.summary} (models for {TASK_NAMES[kind.model_task]}{sample})")
    print("settings of --compare and --sweep")
    for name, key in KEYS.items():
        print(f"  {name:{width}}  {key.summary}: {', '.join(key.values)}")
