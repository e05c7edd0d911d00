"""Floor 5: the functions that a person calls. A notebook calls answer_slot and open_report, a script calls run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netrepro.workbench.catalogue.skeleton import new_paper
    from netrepro.workbench.classroom.class_formats import write_class_copies
    from netrepro.workbench.classroom.exercises import check_answer
    from netrepro.workbench.classroom.grading import grade
    from netrepro.workbench.cli.doctor import examine
    from netrepro.workbench.notebook import guide
    from netrepro.workbench.notebook.report import answer_slot, open_report
    from netrepro.workbench.publishing.comparison import compare
    from netrepro.workbench.publishing.exporting import export
    from netrepro.workbench.publishing.pages import gallery
    from netrepro.workbench.publishing.results import publish
    from netrepro.workbench.running.runner import run
    from netrepro.workbench.running.sweeping import sweep

__all__ = [
    "answer_slot",
    "check_answer",
    "compare",
    "examine",
    "export",
    "gallery",
    "grade",
    "guide",
    "new_paper",
    "open_report",
    "publish",
    "run",
    "sweep",
    "write_class_copies",
]

_HOME = {
    "answer_slot": "notebook.report",
    "open_report": "notebook.report",
    "run": "running.runner",
    "sweep": "running.sweeping",
    "publish": "publishing.results",
    "compare": "publishing.comparison",
    "examine": "cli.doctor",
    "export": "publishing.exporting",
    "gallery": "publishing.pages",
    "new_paper": "catalogue.skeleton",
    "check_answer": "classroom.exercises",
    "write_class_copies": "classroom.class_formats",
    "grade": "classroom.grading",
    "guide": "notebook.guide",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `netrepro list` then needs neither pandas nor matplotlib."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    module = import_module(f"netrepro.workbench.{home}")
    return module if home.endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    """List all public names, whether they are imported yet or not."""
    return sorted(__all__)
