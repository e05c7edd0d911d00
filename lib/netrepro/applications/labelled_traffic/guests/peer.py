"""A BitTorrent client (libtorrent) that joins swarms and leaves them; TCP only, no tracker, no DHT, no PEX."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from typing import Any

import libtorrent
from common import begin, say, told_to_stop


def main() -> None:
    work = begin()
    rng = random.Random(work["style"])
    encryption = libtorrent.enc_policy
    settings: Any = {
        "listen_interfaces": f"0.0.0.0:{work['port']}",
        "enable_dht": False,
        "enable_lsd": False,
        "enable_upnp": False,
        "enable_natpmp": False,
        "enable_incoming_utp": False,
        "enable_outgoing_utp": False,
        "alert_mask": 0,
        "user_agent": rng.choice(("client/1.0", "another client/3.1.2", "c/2")),
        "out_enc_policy": int(rng.choice((encryption.pe_enabled, encryption.pe_disabled))),
        "in_enc_policy": int(encryption.pe_enabled),
        "prefer_rc4": rng.random() < 0.5,
        "aio_threads": 1,
        "hashing_threads": 1,
        "handshake_timeout": 15,
        "connection_speed": 20,
    }
    session = libtorrent.session(settings)
    events = sorted([(each["join_s"], "join", each) for each in work["swarms"]], key=lambda event: event[0])
    events += [(each["leave_s"], "leave", each) for each in work["swarms"]]
    events.sort(key=lambda event: event[0])
    folder = tempfile.mkdtemp(dir=work["folder"])
    stopped = told_to_stop()
    joined: dict[str, Any] = {}
    say("ready")
    for at_s, what, swarm in events:
        if stopped.wait(max(0.0, work["begin_s"] + at_s - time.monotonic())):
            break
        if what == "leave":
            session.remove_torrent(
                joined.pop(swarm["torrent"]), libtorrent.options_t.delete_files * (not swarm["seed"])
            )
            continue
        wanted = libtorrent.add_torrent_params()
        wanted.ti = libtorrent.torrent_info(swarm["torrent"])
        wanted.save_path = work["content"] if swarm["seed"] else folder
        flags = libtorrent.torrent_flags
        wanted.flags = flags.seed_mode if swarm["seed"] else flags.update_subscribe
        wanted.peers = [tuple(peer) for peer in swarm["peers"]]
        joined[swarm["torrent"]] = session.add_torrent(wanted)
    say({"failed": sum(not handle.status().is_seeding for handle in joined.values())})
    stopped.wait()
    del session
    shutil.rmtree(folder, ignore_errors=True)


main()
