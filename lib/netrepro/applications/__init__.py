"""Floor 2: programs that run on the hosts of a network; `<name>/guest.py` inside, `<name>/run.py` outside."""
