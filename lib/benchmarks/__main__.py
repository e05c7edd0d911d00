"""`make bench`: every benchmark's table, speeds as ratios against a named peer measured in the same run.

Each bench_<name>.py has `run(quick) -> DataFrame` with columns benchmark, ours_per_s, peer, peer_per_s, ratio.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], prog="make bench ARGS=…")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)} [default: all]")
    parser.add_argument("--thorough", action="store_true", help="longer runs, steadier ratios")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    tables = []
    for name in arguments.names or NAMES:
        print(f"\n{name}", flush=True)
        table = importlib.import_module(f"benchmarks.bench_{name}").run(quick=not arguments.thorough)
        print(table.to_string(index=False, float_format="{:,.3g}".format), flush=True)
        tables.append(table)
    folder = FOLDER.parents[1] / "runs"
    folder.mkdir(exist_ok=True)
    pd.concat(tables).to_csv(folder / "benchmarks.csv", index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
