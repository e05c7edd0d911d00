"""Floor 5: the functions that a person calls. A notebook calls answer_slot and open_report, a script calls run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netrepro.workbench import guide
    from netrepro.workbench.class_formats import write_class_copies
    from netrepro.workbench.comparison import compare
    from netrepro.workbench.doctor import examine
    from netrepro.workbench.exercises import check_answer
    from netrepro.workbench.exporting import export
    from netrepro.workbench.grading import grade
    from netrepro.workbench.pages import gallery
    from netrepro.workbench.publishing import publish
    from netrepro.workbench.report import answer_slot, open_report
    from netrepro.workbench.runner import run
    from netrepro.workbench.skeleton import new_paper
    from netrepro.workbench.sweeping import sweep

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
    "answer_slot": "report",
    "open_report": "report",
    "run": "runner",
    "sweep": "sweeping",
    "publish": "publishing",
    "compare": "comparison",
    "examine": "doctor",
    "export": "exporting",
    "gallery": "pages",
    "new_paper": "skeleton",
    "check_answer": "exercises",
    "write_class_copies": "class_formats",
    "grade": "grading",
    "guide": "guide",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `netrepro list` then needs neither pandas nor matplotlib."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"netrepro.workbench.{_HOME[name]}")
    return module if name == _HOME[name] else getattr(module, name)


def __dir__() -> list[str]:
    """List all public names, whether they are imported yet or not."""
    return sorted(__all__)
