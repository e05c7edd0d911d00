"""Reno by RFC 5681 as a program: `netrepro conform control.py`."""

import json
import sys


def answer(what, segments):
    print(json.dumps({"do": what, "segments": segments}))


flight = 0  # what was in flight when the last acknowledgement came
for line in sys.stdin:
    event = json.loads(line)
    if event["event"] in ("loss", "mark"):
        answer("threshold", max(min(flight, event["window"]) / 2, 2))
    elif event["event"] == "grow":
        window, left = event["window"], event["segments"]
        flight = event["next"] - event["first"] + left
        if event["window_limited"]:
            threshold = event["threshold"] or float("inf")
            if window < threshold:  # slow start
                grown = min(window + left, threshold)
                window, left = grown, left - (grown - window)
            if left > 0:  # congestion avoidance
                window += left / window
            answer("window", window)
    print('{"do": "done"}', flush=True)
