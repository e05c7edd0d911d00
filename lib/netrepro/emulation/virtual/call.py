"""Runs a pickled Python function: call.py CALL RESULT."""

import pickle
import sys
from pathlib import Path


def main(call: str, result: str) -> None:
    with Path(call).open("rb") as file:
        sys.path[:] = pickle.load(file)
        function, arguments, keywords = pickle.load(file)
    import cloudpickle

    try:
        outcome = True, function(*arguments, **keywords)
    except Exception as error:
        outcome = False, error
    Path(result).write_bytes(cloudpickle.dumps(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])
