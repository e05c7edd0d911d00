"""Tables of labelled flows drawn at random, clean ones and ones with a planted leak."""

from __future__ import annotations

import numpy as np
import pandas as pd

CLASSES = ("chat", "mail", "video")
START_S = 1_700_000_000


def clean_flows(count: int = 3000, seed: int = 5) -> pd.DataFrame:
    """Flows whose class shows in eight features, in none of them alone, and in no address, port or time."""
    random = np.random.default_rng(seed)
    place = random.integers(len(CLASSES), size=count)
    frame = pd.DataFrame(
        {
            "src_ip": [f"10.0.{host // 250}.{host % 250 + 1}" for host in random.integers(60, size=count)],
            "src_port": random.integers(20_000, 60_000, size=count),
            "dst_ip": [f"192.168.1.{host + 1}" for host in random.integers(40, size=count)],
            "dst_port": random.integers(1024, 20_000, size=count),
            "protocol": random.choice([6, 17], size=count),
            "timestamp": START_S + random.uniform(0, 86_400, size=count),
        }
    )
    for number in range(8):
        shift = np.array([0.0, 0.7, 1.4])[(place + number) % 3]
        frame[f"size_{number}"] = random.lognormal(5 + shift, 0.7, size=count)
    return frame.assign(label=np.array(CLASSES)[place])


def of_groups(groups: np.ndarray, seed: int = 6) -> pd.DataFrame:
    """Clean flows in which every group has one class and a value of its own, and nothing else tells the class."""
    random = np.random.default_rng(seed)
    frame = clean_flows(len(groups))
    _, numbers = np.unique(groups, return_inverse=True)
    for number in range(8):
        frame[f"size_{number}"] = random.lognormal(5, 0.7, size=len(groups))
    own = random.uniform(100, 10_000, size=(numbers.max() + 1, 3))
    for number in range(3):
        frame[f"size_{number}"] = own[numbers, number] * random.uniform(0.999, 1.001, size=len(groups))
    # Many more classes than values would make are no pattern: a new group's value tells nothing.
    return frame.assign(label=random.permutation(np.resize(CLASSES, numbers.max() + 1))[numbers])
