"""The probe against util-linux and iproute2, and against rights that are really taken away."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyroute2
import pytest

from netrepro.emulation import tiers
from netrepro.emulation.tiers import TierProbe, TierStatus, kernel_features, probe_tiers, resolve_tier
from netrepro.errors import NetreproError
from netrepro.tiers_and_profiles import TIERS

PROBE = Path(tiers.__file__).with_name("real_time") / "probe.py"
RESTRAINED = Path(__file__).with_name("restrained.py")
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
ERRNO_NAME = re.compile("|".join(rf"\b{name}\b" for name in errno.errorcode.values()))


def reply_of(*arguments: str, restraint: str | None = None, python: str = sys.executable, **user):
    """Return the answer of probe.py, under a restraint or as another user."""
    prefix = [sys.executable, str(RESTRAINED), restraint] if restraint else []
    command = [*prefix, python, "-P", str(PROBE), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=60, **user)
    if "no user namespace to restrain" in result.stderr:
        pytest.skip("this machine opens no user namespace")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def ordinary_user():
    """An interpreter that an ordinary user may start, and what makes a subprocess that user's."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(pyroute2.__file__).parents[1]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        user = {"env": environment, **NOBODY}
        try:
            tried = subprocess.run([python, "-c", "import pyroute2"], capture_output=True, cwd="/", **user)
        except OSError:
            continue
        if tried.returncode == 0:
            return {"python": python}, user
    pytest.skip("an ordinary user cannot start any interpreter of this version")


def unshare_works(*command: str, **user) -> bool:
    """The second opinion: util-linux and iproute2 do the same."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("util-linux or iproute2 is absent")
    return subprocess.run(["unshare", *command], capture_output=True, cwd="/", **user).returncode == 0


ADD_VETH = ("ip", "link", "add", "x0", "type", "veth", "peer", "name", "x1")


def test_the_probe_agrees_with_unshare_and_ip():
    found = probe_tiers()
    assert found.rootless.available == unshare_works("-Urnm", *ADD_VETH)
    in_first_namespace = Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
    assert found.privileged.available == (in_first_namespace and unshare_works("-n", *ADD_VETH))


def test_an_ordinary_user_is_offered_the_rootless_tier_or_told_the_errno(ordinary_user):
    interpreter, user = ordinary_user
    found = reply_of("tiers", **interpreter, **user)
    works, why = found["privileged"]
    assert not works and "EPERM" in why
    works, why = found["rootless"]
    assert works == unshare_works("-Urnm", *ADD_VETH, **user)
    assert works or ERRNO_NAME.search(why)


def test_a_seccomp_filter_as_in_a_container_leaves_only_the_simulated_tier():
    found = reply_of("tiers", restraint="unshare refused")
    for tier in ("privileged", "rootless"):
        works, why = found[tier]
        assert not works and "EPERM" in why


def test_a_filter_that_kills_is_survived_and_named():
    found = reply_of("tiers", restraint="unshare kills")
    for tier in ("privileged", "rootless"):
        assert found[tier] == [False, "the attempt was ended by SIGSYS"]


def test_an_exhausted_limit_of_user_namespaces_is_named():
    works, why = reply_of("tiers", restraint="no more user namespaces")["rootless"]
    assert not works and "ENOSPC" in why


def test_a_namespace_that_opens_without_rights_in_it_is_not_a_tier():
    if not probe_tiers().rootless.available:
        pytest.skip("this machine opens no user namespace")
    works, why = reply_of("tiers", restraint="no netlink")["rootless"]
    assert not works and "opens, but no veth pair" in why and "EACCES" in why


def test_root_of_a_user_namespace_is_not_privileged():
    found = reply_of("tiers", restraint="inside a user namespace")
    works, why = found["privileged"]
    assert not works and "user namespace" in why


def test_a_tier_whose_processes_cannot_end_with_it_is_none():
    works, why = reply_of("tiers", restraint="no more process namespaces")["rootless"]
    assert not works and "opens, but none of processes" in why and "ENOSPC" in why


def namespaces_of_this_process() -> dict[str, str]:
    return {entry.name: str(entry.readlink()) for entry in Path("/proc/self/ns").iterdir()}


def test_the_caller_stays_in_its_namespaces_even_with_many_threads():
    before = namespaces_of_this_process()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: probe_tiers.__wrapped__(), range(2)))
    assert answers[0] == answers[1] == probe_tiers()
    assert namespaces_of_this_process() == before


def test_one_process_probes_once(monkeypatch):
    first = probe_tiers()
    monkeypatch.setattr(tiers, "_PROBE", Path("/nonexistent/probe.py"))
    assert probe_tiers() is first


def test_a_probe_that_gives_no_answer_leaves_the_simulated_tier(monkeypatch):
    monkeypatch.setattr(tiers, "_PROBE", Path("/nonexistent/probe.py"))
    found = probe_tiers.__wrapped__()
    assert found.best == "simulated"
    assert "no answer" in found.rootless.why


def made_up(privileged: bool, rootless: bool) -> TierProbe:
    return TierProbe(
        TierStatus(privileged, "privileged reason"),
        TierStatus(rootless, "rootless reason EPERM"),
        TierStatus(True, "simulated reason"),
    )


def test_auto_takes_the_first_tier_that_the_notebook_names_and_the_machine_has():
    """Every combination of 2 tiers on the machine and 3 in the notebook, in any order."""
    for privileged, rootless in itertools.product((False, True), repeat=2):
        probe = made_up(privileged, rootless)
        for count in range(4):
            for supported in itertools.permutations(TIERS, count):
                shared = [tier for tier in supported if probe[tier].available]
                for requested in ("auto", *TIERS):
                    wanted = shared[:1] if requested == "auto" else [t for t in shared if t == requested]
                    if wanted:
                        tier, why = resolve_tier(requested, supported, probe)
                        assert [tier] == wanted
                        assert probe[tier].why in why
                    else:
                        with pytest.raises(NetreproError) as caught:
                            resolve_tier(requested, supported, probe)
                        assert caught.value.remedy


def test_auto_says_why_a_better_tier_was_passed_over():
    tier, why = resolve_tier("auto", TIERS, made_up(False, False))
    assert tier == "simulated"
    assert "not privileged: privileged reason" in why and "not rootless: rootless reason EPERM" in why


def test_a_refusal_offers_a_tier_that_works():
    with pytest.raises(NetreproError, match="EPERM") as caught:
        resolve_tier("rootless", ["rootless", "simulated"], made_up(False, False))
    assert "'simulated'" in caught.value.remedy


@pytest.mark.parametrize(("given", "meant"), [("rootles", "rootless"), ("simulate", "simulated"), ("Auto", "auto")])
def test_a_mistyped_tier_is_answered_with_the_nearest(given, meant):
    with pytest.raises(NetreproError) as caught:
        resolve_tier(given, TIERS, made_up(True, True))
    assert repr(meant) in caught.value.remedy


def test_a_notebook_cannot_support_auto():
    with pytest.raises(NetreproError, match="no tier 'auto'"):
        resolve_tier("auto", ["auto"], made_up(True, True))


# The kernel's features


@pytest.fixture(scope="module")
def features():
    table = kernel_features()
    if table.empty:
        pytest.skip("this machine opens no network namespace")
    return table.set_index("feature")


SECOND_OPINIONS = {
    "veth": "ip link add x0 type veth peer name x1",
    "bridge": "ip link add x0 type bridge",
    "TBF": "ip link add x0 type veth peer name x1 && tc qdisc add dev x0 root tbf rate 10mbit burst 1600 limit 30000",
    "HTB": "ip link add x0 type veth peer name x1 && tc qdisc add dev x0 root handle 1: htb"
    " && tc class add dev x0 parent 1: classid 1:1 htb rate 10mbit",
    "one segment a packet": "ip link add x0 type veth peer name x1 && ip link set x0 gso_max_segs 1",
    "netem": "ip link add x0 type veth peer name x1 && tc qdisc add dev x0 root netem delay 1ms"
    " && tc qdisc add dev x0 clsact"
    " && tc filter add dev x0 ingress matchall action mirred egress redirect dev x0",
    "fq": "ip link add x0 type veth peer name x1 && tc qdisc add dev x0 root fq",
    "clsact": "ip link add x0 type veth peer name x1 && tc qdisc add dev x0 clsact",
    "IFB": "ip link add x0 type ifb",
    "VXLAN": "ip link add x0 type vxlan id 1 dstport 4789 local 10.0.0.1",
    "ECMP routes": "ip link add x0 type veth peer name x1 && ip link set x0 up && ip link set x1 up"
    " && ip addr add 10.0.0.1/24 dev x0"
    " && ip route add 10.1.0.0/16 nexthop via 10.0.0.2 nexthop via 10.0.0.3"
    " && echo 3 > /proc/sys/net/ipv4/fib_multipath_hash_policy"
    " && echo 55 > /proc/sys/net/ipv4/fib_multipath_hash_fields",
}


def test_links_queues_and_routes_agree_with_ip_and_tc(features):
    flags = "-n" if probe_tiers().best == "privileged" else "-Urn"
    ours = {feature: bool(features.works[feature]) for feature in SECOND_OPINIONS}
    theirs = {feature: unshare_works(flags, "sh", "-ec", text) for feature, text in SECOND_OPINIONS.items()}
    assert ours == theirs


def test_every_scheme_the_kernel_lists_is_tried_and_an_unknown_one_is_refused(features):
    listed = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    tried = {name.removeprefix("TCP "): row.works for name, row in features.iterrows() if name.startswith("TCP ")}
    assert set(tried) == {*listed, "bbr", "dctcp"}
    assert all(tried[scheme] for scheme in listed)


def test_what_does_not_work_says_why_and_who_needs_it(features):
    assert features.needed_by.str.len().gt(0).all()
    for _, row in features[~features.works].iterrows():
        assert ERRNO_NAME.search(row.why) or row.why.startswith(
            ("no cgroup", "control groups", "the kernel", "not tried")
        )


@pytest.mark.parametrize(("restraint", "why"), [("no bpf", "ENOSYS"), ("bpf kills", "SIGSYS")])
def test_a_missing_right_takes_away_only_what_needs_it(features, restraint, why):
    rows = reply_of("features", probe_tiers().best, restraint=restraint)
    under = {row["feature"]: row for row in rows}
    assert not under["eBPF program"]["works"] and why in under["eBPF program"]["why"]
    others = [name for name in features.index if not name.startswith("eBPF")]
    assert {name: under[name]["works"] for name in others} == features.works[others].to_dict()


def test_no_feature_is_tried_where_no_namespace_opens():
    assert kernel_features("simulated").empty
    with pytest.raises(NetreproError, match="no tier 'root'"):
        kernel_features("root")


LEFT_BEHIND = """
import json, os, socket
from pathlib import Path
from netrepro.emulation.tiers import kernel_features, probe_tiers
def seen():
    spaces = {}
    for process in Path("/proc").glob("[0-9]*"):
        spaces[process.name] = sorted(str(entry.readlink()) for entry in (process / "ns").iterdir())
    links = socket.if_nameindex()
    files = [path for path in Path("/proc/sys/net/ipv4").glob("*") if path.is_file()]
    settings = {str(path): path.read_text() for path in files if os.access(path, os.R_OK)}
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob("**/netrepro-probe-*")]
    return spaces, links, settings, groups
before = seen()
probe_tiers(), kernel_features()
after = seen()
print(json.dumps([part for part, name in zip(range(4), "abcd") if before[part] != after[part]] + after[3]))
"""


def test_nothing_is_left_behind():
    """Links, namespaces, processes and settings, seen from a process namespace where nobody else works."""
    flags = ["--net", "--pid", "--mount", "--fork", "--mount-proc", *(["-Ur"] if os.geteuid() else [])]
    if not shutil.which("unshare"):
        pytest.skip("util-linux is absent")
    command = ["unshare", *flags, sys.executable, "-c", LEFT_BEHIND]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if result.returncode and result.stderr.startswith("unshare:"):
        pytest.skip(f"no place of our own to look from: {result.stderr.strip()}")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == []
