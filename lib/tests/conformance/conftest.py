from __future__ import annotations

import pytest

from netrepro.conformance import SUITES, load_suite


@pytest.fixture(scope="session")
def scenarios_of() -> dict[str, str]:
    """Sentence -> its scenario, of all suites."""
    return {
        sentence.id: scenario.name
        for suite in map(load_suite, SUITES)
        for scenario in suite.scenarios
        for sentence in scenario.sentences
    }
