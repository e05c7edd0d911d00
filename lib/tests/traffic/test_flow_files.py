"""Tables of flows as Parquet files."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pandas as pd
import pytest

from netrepro.errors import NetreproError
from netrepro.traffic import load_standin, read_flows, write_flows

with_pyarrow = pytest.mark.skipif(not importlib.util.find_spec("pyarrow"), reason="pyarrow is not installed")


@with_pyarrow
def test_a_table_that_is_written_reads_back_equal_types_labels_and_missing_values_included(tmp_path: Path) -> None:
    trace = load_standin(first_packets=9)
    joined = trace.join.flows  # flows without a record have neither label nor delay
    assert joined["class"].isna().any() and joined["record_delay_s"].isna().any() and joined["class"].notna().any()
    for table in (trace.metering.flows, trace.flows, joined, joined.iloc[:0]):
        write_flows(table, tmp_path / "flows.parquet")
        pd.testing.assert_frame_equal(read_flows(tmp_path / "flows.parquet"), table.reset_index(drop=True))


@with_pyarrow
def test_a_missing_folder_and_a_file_that_is_no_parquet_are_named(tmp_path: Path) -> None:
    with pytest.raises(NetreproError, match="nowhere"):
        write_flows(pd.DataFrame({"protocol": [6]}), tmp_path / "nowhere" / "flows.parquet")
    (tmp_path / "text.parquet").write_text("no table")
    for name in ("text.parquet", "absent.parquet"):
        with pytest.raises(NetreproError, match=name):
            read_flows(tmp_path / name)


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for use in (lambda path: write_flows(pd.DataFrame({"protocol": [6]}), path), read_flows):
        with pytest.raises(NetreproError, match="pyarrow") as error:
            use(tmp_path / "flows.parquet")
        assert "pip install pyarrow" in str(error.value) and list(tmp_path.iterdir()) == []
