"""`make bench`: every benchmark's table, speeds as ratios against a named peer measured in the same run.

Each bench_<name>.py has `run(quick)` -> DataFrame or {title: DataFrame}; a table holds ours, the peers and the ratios.
A peer that is not installed has a row that says where it comes from. A column of times that were measured elsewhere
says so.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

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
    folder = FOLDER.parents[1] / "runs" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or NAMES:
        found = importlib.import_module(f"benchmarks.bench_{name}").run(quick=not arguments.thorough)
        tables = found if isinstance(found, dict) else {"speeds": found}
        for title, table in tables.items():
            print(f"\n{name}: {title}\n{table.to_string(float_format='{:,.3g}'.format)}", flush=True)
            table.to_csv(folder / f"{name}-{title.replace(' ', '_')}.csv")
    return 0


if __name__ == "__main__":
    sys.exit(main())
