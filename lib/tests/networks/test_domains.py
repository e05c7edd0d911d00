"""No number of a description kills the process, overflows or stands still: an answer, or our error, at once."""

from __future__ import annotations

import dataclasses
import html
import json
import multiprocessing
import random
import re
import time
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from netrepro.errors import NetreproError
from netrepro.networks import (
    AckDivision,
    Cable,
    Cake,
    CoDel,
    Datagrams,
    DropTail,
    DualPi2,
    DuplicateSpoofing,
    EcnThreshold,
    Experiment,
    Flow,
    Fq,
    FqCoDel,
    Link,
    LinkChange,
    Measure,
    NicPacer,
    OptimisticAck,
    PhantomQueue,
    Pie,
    PoissonFlows,
    Policer,
    Rcp,
    Receiver,
    Red,
    Requests,
    Routing,
    Sfq,
    SharedBuffer,
    Slotted,
    Tcp,
    Topology,
    Xcp,
    load_flow_sizes,
    star,
)
from netrepro.networks.description import _KINDS, _NUMBERS, DOMAINS, UNITS, _ends
from netrepro.simulation import simulate

SECONDS = 0.02
FLOW, LINK = Flow("h1", "h2", 30_000), Link(10.0, 0.5, DropTail(packets=20))
DESCRIPTIONS = {
    "flow": FLOW,
    "lasting": Flow("h1", "h2", duration_s=0.01),
    "datagrams": Datagrams("h1", "h2", 5.0, 0.01),
    "requests": Requests("h1", ("h2",), 100, 1000, 2),
    "tcp": Tcp(),
    "rcp": Rcp(),
    "xcp": Xcp(),
    "measure": Measure(queues=(("s1", "h2"),), windows_interval_ms=1.0),
    "link": dataclasses.replace(LINK, loss=0.1, jitter_ms=0.1, reordering=0.1, reordering_ms=1.0),
    "experiment": Experiment(star(2, LINK), (FLOW,), SECONDS),
    "topology": star(2, LINK),
    "cable": Cable("h1", "h2", LINK),
    "replicated": dataclasses.replace(FLOW, replication="repflow"),
    "subflows": dataclasses.replace(FLOW, subflows=2, congestion_control="lia"),
    "poisson flows": PoissonFlows(load_flow_sizes("web_search"), 500.0, 10, replication="repsyn"),
    "sizes": load_flow_sizes("web_search"),
    "lossy tcp": Tcp(min_rto_ms=1.0),
    "bounded tcp": Tcp(send_buffer_bytes=20_000),
    "policer": Policer(5.0, 5000, 1000),
    "narrow link": dataclasses.replace(LINK, mtu_bytes=1000),
    "routing": Routing("k_shortest_paths"),
    "change": LinkChange(0.01, "s1", "h2", rate_mbps=5.0),
    "division": AckDivision(3),
    "spoofing": DuplicateSpoofing(3),
    "optimistic": OptimisticAck(20.0),
    "DropTail of bytes": DropTail(bytes=20_000),
} | {
    type(queue).__name__: queue
    for queue in (
        DropTail(packets=10),
        EcnThreshold(10, 5),
        Red(20, 5, 15, 0.1),
        CoDel(20),
        Pie(20),
        PhantomQueue(20),
        SharedBuffer(100_000),
        Sfq(20),
        FqCoDel(20),
        Fq(20, ce_threshold_ms=1.0),
        DualPi2(20),
        Cake(shaped_mbps=10),
        NicPacer(20),
        Slotted(20, 0.5, 1.0, slot_packets=4, slot_bytes=5000),
    )
}
LEAST, MOST = (sorted({bound[place] for bound in DOMAINS.values()}) for place in (0, 1))
NUMBERS = [*LEAST, *MOST, -1, 0, 1, 1e-300, 1e-12, 1e300, 2**63, 2**70, float("nan"), float("inf")]
WRONG = [None, True, "5", [], {}]
IN_TIME_S = 60.0
IN_CPU_S = 5.0  # of this process, for one value: the issue asks for one second on a quiet machine


def experiment_with(name: str, changed: Any) -> Experiment:
    """A small experiment that has the changed description in the place of its own."""
    if name == "experiment":
        return changed
    entry: Any = changed if isinstance(changed, Flow | Datagrams | Requests | PoissonFlows) else FLOW
    if name == "sizes":
        entry = PoissonFlows(changed, 500.0, 10)
    link = changed if isinstance(changed, Link) else LINK
    if name[0].isupper():  # a queue
        link = dataclasses.replace(LINK, queue=changed)
    if isinstance(changed, Policer):
        link = dataclasses.replace(LINK, policer=changed)
    if name == "lossy tcp":
        link = dataclasses.replace(LINK, loss=0.3)
    network = changed if name == "topology" else Topology((changed,)) if name == "cable" else star(2, link)
    more = {name: changed} if name in ("tcp", "rcp", "xcp", "measure", "routing") else {}
    if isinstance(changed, Receiver | Tcp):
        more = {"tcp": changed if isinstance(changed, Tcp) else Tcp(receiver=changed)}
    if name == "change":
        more = {"changes": (changed,)}
    return Experiment(network, (entry,), SECONDS, **more)


def try_all(name: str, told: Any) -> None:
    """Every number in the place of every number; says what it tries before it does."""
    described = DESCRIPTIONS[name]
    for field in dataclasses.fields(described):
        if isinstance(getattr(described, field.name), bool) or not isinstance(
            getattr(described, field.name), (int, float)
        ):
            continue
        for value in NUMBERS:
            told.send((field.name, value))
            began_s = time.process_time()
            try:
                simulate(experiment_with(name, dataclasses.replace(described, **{field.name: value})))
            except NetreproError:
                pass
            if time.process_time() - began_s > IN_CPU_S:
                return
    told.send("done")


def test_every_kind_of_description_is_tried():
    """But OwnQueue, which is code of the user's and has no number."""
    tried = {type(described).__name__ for described in DESCRIPTIONS.values()} | {"OwnQueue"}
    kinds = {name for name, kind in _KINDS.items() if kind.__module__.startswith("netrepro.")}
    assert kinds - tried == set()


OUR_KINDS = {name: kind for name, kind in _KINDS.items() if kind.__module__.startswith("netrepro.")}


@pytest.mark.parametrize("kind", OUR_KINDS.values(), ids=OUR_KINDS)
def test_help_shows_which_numbers_every_field_takes(kind):
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    single = [name for name in names if get_origin(hints[name]) is not tuple]  # others are numbers of flows
    numbers = [name for name in single if {hints[name], *get_args(hints[name])} & {int, float}]
    assert list(_NUMBERS[kind]) == numbers
    lines = {line.split("`")[1]: line for line in kind.__doc__.splitlines() if line.startswith("- `")}
    assert list(lines) == numbers
    for name, line in lines.items():
        unit = next(
            (unit for end, unit in sorted(UNITS.items(), key=lambda each: -len(each[0])) if name.endswith(end)), ""
        )
        assert unit in line and any(digit.isdigit() for digit in line)


def test_the_pages_of_functions_show_them_too():
    pdoc = pytest.importorskip("pdoc", reason="the gallery's pages of functions need pdoc")
    page = html.unescape(re.sub(r"<[^>]+>", "", pdoc.pdoc("netrepro.networks.links")))
    said = [line[2:].replace("`", "") for line in Link.__doc__.splitlines() if line.startswith("- `")]
    assert len(said) == 8 and all(line in page for line in said)
    assert "Numbers(above=0)" in page and "below=inf" not in page  # signatures stay short


def test_units_are_of_names_that_have_a_domain():
    assert set(UNITS) <= set(DOMAINS)


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_what_help_shows_is_what_is_refused(name):
    description = DESCRIPTIONS[name]
    for field, numbers in _NUMBERS[type(description)].items():
        if getattr(description, field) is None:  # and so may be nothing else here
            continue
        least, most = _ends(field, numbers)
        most = min(most, numbers.below)
        beyond = [least - 1 if numbers.whole else (least * 0.99 if least else -1e-9)]
        beyond += [0.0] if numbers.above == 0 else []
        beyond += [most + 1 if numbers.whole else most * 1.01] if most < float("inf") else []
        beyond += [1.0] if numbers.below == 1 else []
        for value in beyond:
            with pytest.raises(NetreproError, match=rf"{type(description).__name__}: {field} = "):
                dataclasses.replace(description, **{field: value})


@pytest.mark.filterwarnings("ignore:.*in an experiment of:UserWarning", "ignore:.*start after the end:UserWarning")
@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_every_number_of_a_description_gives_an_answer_or_our_error(name):
    """In a process of its own: what ends that, or takes it long, is named."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=try_all, args=(name, theirs))
    child.start()
    theirs.close()
    last: Any = "nothing"
    try:
        while ours.poll(IN_TIME_S):
            last = ours.recv()
    except EOFError:
        pass
    finally:
        child.kill()
        child.join()
    assert last == "done", f"{name}: {last} ended the process, or took more than {IN_CPU_S:g} s of a processor"


@pytest.mark.parametrize("name", ["experiment", "requests", "Red", "tcp", "measure", "link"])
def test_json_of_any_shape_gives_a_description_or_our_error(name):
    text = experiment_with(name, DESCRIPTIONS[name]).to_json()
    draw = random.Random(name)
    for _ in range(300):
        changed = json.loads(text)
        place: Any = changed
        while True:
            key = draw.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if not isinstance(place[key], (dict, list)) or not place[key] or draw.random() < 0.1:
                break
            place = place[key]
        place[key] = draw.choice([*NUMBERS, *WRONG])
        try:
            Experiment.from_json(json.dumps(changed))
        except NetreproError:
            pass


def test_numbers_beyond_their_unit_are_refused_by_name():
    for broken, words in (
        (lambda: Pie(update_ms=1e-12), r"Pie: update_ms = 1e-12\s+give a number from 0.001"),
        (lambda: Requests("h1", ("h2",), 1, 2**62, 1), "response_bytes|request_bytes"),
        (lambda: Requests("h1", ("h2",), 1, 2**30, 2**30), "bytes in all"),
        (lambda: Experiment(star(2, LINK), (FLOW,), 1e7), r"(?s)duration_s = .*1e\+06"),
        (lambda: Tcp(receive_window_bytes=2**70), "receive_window_bytes"),
        (lambda: Datagrams("h1", "h2", 1e-300, 1.0), "rate_mbps"),
        (lambda: Datagrams("h1", "h2", 1.0, 1.0, packet_bytes=70_000), "packet_bytes"),
        (
            lambda: Experiment(
                star(2, LINK), (FLOW,), 10.0, measure=Measure((("s1", "h2"),), queue_interval_ms=1e-3 / 8)
            ),
            "queue_interval_ms",
        ),
        (lambda: Experiment(star(2, LINK), (FLOW,), 1e3, measure=Measure((("s1", "h2"),), 0.001)), "samples"),
    ):
        with pytest.raises(NetreproError, match=words):
            broken()
