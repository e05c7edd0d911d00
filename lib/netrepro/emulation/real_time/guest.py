"""Runs one pickled function inside a node: guest.py, the call on standard input, its outcome to descriptor 3."""

from __future__ import annotations

import os
import sys
import traceback


def main() -> None:
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
            except Exception:  # an exception that cannot travel
                pickled = cloudpickle.dumps((False, (RuntimeError(f"{type(error).__name__}: {error}"), text)))
    sys.stdout.flush()
    with os.fdopen(3, "wb") as output:
        output.write(pickled)


if __name__ == "__main__":
    main()
