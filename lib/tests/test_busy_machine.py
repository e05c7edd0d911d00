"""The rule by which a failed comparison with real time is skipped where the machine underneath took the processors."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import conftest
import pytest


def outcome_when(
    monkeypatch: pytest.MonkeyPatch, *, wanted: int, stolen: int, raised: Exception, folder: str = "real_time"
) -> tuple[str, str]:
    """Return the outcome of a test that raised, and the words for it. wanted, stolen : processor ticks meanwhile."""
    ticks = iter([(1000, 10), (1000 + wanted, 10 + stolen)])
    monkeypatch.setattr(conftest, "processor_ticks", lambda: next(ticks))
    monkeypatch.setattr(conftest, "_began", {})
    item = SimpleNamespace(path=Path(folder) / "test_it.py", nodeid="test_it", location=("test_it.py", 0, "test_it"))
    with pytest.raises(type(raised)) as excinfo:
        raise raised
    report = SimpleNamespace(failed=True, outcome="failed", longrepr="the traceback")
    conftest.pytest_runtest_setup(item)
    judging = conftest.pytest_runtest_makereport(item, SimpleNamespace(excinfo=excinfo))
    next(judging)
    with pytest.raises(StopIteration) as ended:
        judging.send(report)
    assert ended.value.value is report
    return report.outcome, report.longrepr[2] if report.outcome == "skipped" else report.longrepr


def test_a_comparison_that_fails_while_others_took_the_processors_is_skipped_and_says_so(monkeypatch):
    outcome, reason = outcome_when(monkeypatch, wanted=1000, stolen=50, raised=AssertionError("41 against 47"))
    assert outcome == "skipped"
    assert "5.0% of the processor time" in reason and "41 against 47" in reason
    assert reason.removeprefix("Skipped: ").startswith(conftest.EXPECTED_SKIPS)


@pytest.mark.parametrize(
    ("stolen", "raised", "folder"),
    [
        (10, AssertionError("41 against 47"), "real_time"),  # nobody took them
        (50, ValueError("no such port"), "real_time"),  # no comparison
        (50, AssertionError("41 against 47"), "simulation"),  # not in real time
        (50, AssertionError("41 against 47"), "emulation"),  # in virtual time
    ],
)
def test_all_else_that_fails_has_failed(monkeypatch, stolen, raised, folder):
    seen = outcome_when(monkeypatch, wanted=1000, stolen=stolen, raised=raised, folder=folder)
    assert seen == ("failed", "the traceback")


def test_what_a_busy_machine_left_unjudged_is_counted_and_named_at_the_end(monkeypatch):
    monkeypatch.setattr(conftest, "_too_busy", [])
    monkeypatch.setattr(conftest, "_unexpected", [])
    for name, reason in (("first", f"{conftest.TOO_BUSY}: 5 %"), ("other", "needs root"), ("last", conftest.TOO_BUSY)):
        conftest._note_skip(SimpleNamespace(skipped=True, nodeid=name, longrepr=("a.py", 1, f"Skipped: {reason}")))
    lines: list[str] = []
    conftest.pytest_terminal_summary(SimpleNamespace(write_line=lambda line, **_: lines.append(line)))
    assert lines == ["2 not judged, the machine is too busy: first, last"]
