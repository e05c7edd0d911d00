"""Runs one pickled function inside a node: call_guest.py [OUTCOME]; it reads the call from standard input.

The pickled result goes to the file OUTCOME, or without that argument to file descriptor 3.
"""

from __future__ import annotations

import os
import sys
import traceback


def main(outcome_to: str | int = 3) -> None:
    import cloudpickle

    with os.fdopen(0, "rb") as call:
        sys.path[:] = cloudpickle.load(call)
        try:
            function, arguments, keywords = cloudpickle.load(call)
            outcome = True, function(*arguments, **keywords)
            pickled = cloudpickle.dumps(outcome)
        except BaseException as error:
            text = traceback.format_exc()
            try:
                pickled = cloudpickle.dumps((False, (error, text)))
                cloudpickle.loads(pickled)
            except Exception:  # this exception cannot be pickled
                pickled = cloudpickle.dumps((False, (RuntimeError(f"{type(error).__name__}: {error}"), text)))
    sys.stdout.flush()
    with open(outcome_to, "wb") as output:  # noqa: PTH123  a name or a descriptor
        output.write(pickled)


if __name__ == "__main__":
    main(*sys.argv[1:])
