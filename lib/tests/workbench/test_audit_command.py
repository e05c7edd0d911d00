"""`netrepro audit`: one command, a table, a sentence a finding, a picture, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import command


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    """A table whose destination port tells the class."""
    random = np.random.default_rng(1)
    classes = random.integers(2, size=600)
    frame = pd.DataFrame({"dst_port": 443 + classes, "size": random.lognormal(5, 1, 600), "label": classes + 10})
    frame.to_csv(tmp_path / "flows.csv", index=False)
    return tmp_path / "flows.csv"


def test_findings_are_sentences_and_files_are_written(flows, tmp_path):
    done = command("audit", str(flows), "--into", str(tmp_path / "report"))
    assert done.returncode == 0 and done.stderr == ""
    assert "flows.csv: a table, 600 flows of 2 classes" in done.stdout
    assert "Macro-F1 is 1.00 with nothing but the destination port" in done.stdout
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names == {"audit.png", "audit.json", "checks.csv", "scores.csv", "columns.csv"}


def test_the_same_is_there_as_json_and_check_fails_where_something_is_found(flows, tmp_path):
    done = command("audit", str(flows), "--into", str(tmp_path / "report"), "--json", "--check")
    content = json.loads(done.stdout)
    assert done.returncode == 1 and content["rows"] == 600 and content["classes"].keys() == {"10", "11"}
    assert any("nothing but the destination port" in sentence for sentence in content["findings"])
    assert json.loads((tmp_path / "report" / "audit.json").read_text())["findings"] == content["findings"]


def test_what_has_no_labels_is_refused_with_a_remedy(flows, tmp_path):
    pd.read_csv(flows).drop(columns="label").to_csv(flows, index=False)
    done = command("audit", str(flows), "--into", str(tmp_path / "report"))
    assert done.returncode == 2 and "name it: --label COLUMN, of dst_port, size" in done.stdout + done.stderr
    assert not (tmp_path / "report").exists()
    done = command("audit", str(flows), "--label", "prot", "--into", str(tmp_path / "report"))
    assert done.returncode == 2 and "no column 'prot'" in done.stdout + done.stderr
