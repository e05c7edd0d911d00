"""What a measurement runs on a kernel is in the hash of its tier; test_studies asks the same of the simulator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from executed_code import ExecutedCode, not_hashed
from smallest import SMALLEST, smallest
from virtual_kernel import needs_virtual

from netrepro.study import measure

CASES = {"dctcp": ["tcp", "dctcp"], "raft": ["12-24"], "misbehaving_receiver": ["division"]}


@needs_virtual
@pytest.mark.parametrize("slug", CASES)
def test_all_that_runs_in_virtual_time_is_in_the_papers_hash(slug):
    study = smallest(slug)
    few = {name: study.cases[name] for name in CASES[slug]}
    study = replace(study, cases=few, claims={}, on_kernels={}, knobs={}, figures={}, best=())
    with ExecutedCode() as executed:
        runs = measure(study, profile=SMALLEST, tier="virtual", repetitions=1, seed=7, beside=False)
    assert runs.tiers == ["virtual"] and len(executed.functions) > 150
    assert not_hashed(executed, slug, "virtual") == []


def test_a_function_that_a_hash_leaves_out_is_noticed(monkeypatch):
    monkeypatch.setattr("netrepro.workbench.code.ELSEWHERE", {"simulated": {"simulation.*": "nothing needs it"}})
    from netrepro.workbench import code

    code.forget()
    study = smallest("dctcp")
    small = replace(study, cases={"tcp": {}}, claims={}, knobs={}, figures={}, best=())
    with ExecutedCode() as executed:
        measure(small, profile=SMALLEST, repetitions=1)
    assert any("simulation.simulate:simulate" in line for line in not_hashed(executed, "dctcp", "simulated"))
    code.forget()
