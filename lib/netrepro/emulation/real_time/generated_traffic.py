"""An experiment's traffic in a network in real time; one process of the core sends and receives all flows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from netrepro.emulation.plan import HUB
from netrepro.emulation.real_time.changes import Changes
from netrepro.emulation.real_time.core_guest import CoreGuest
from netrepro.emulation.real_time.running import RunningNetwork
from netrepro.emulation.source_routes import FlowConnection
from netrepro.emulation.traffic import TrafficDescription, TrafficResult
from netrepro.networks.experiment import Experiment

_PATIENCE_S, _BEGINNING_PATIENCE_S = 0.1, 0.005  # time between two polls, and the same before the beginning


class GeneratedTraffic:
    """The experiment's running flows; the constructor starts them. Arguments as in TrafficDescription."""

    def __init__(
        self,
        net: RunningNetwork,
        experiment: Experiment,
        made: Sequence[FlowConnection],
        until_complete: bool = False,
    ):
        described = TrafficDescription(experiment, made, net.plan, until_complete)
        self._described, self._duration_s = described, experiment.duration_s
        self._samples = os.memfd_create("window samples")
        flows = experiment.flow_table
        nodes = sorted({*flows["source"], *flows["destination"]})
        self._process = CoreGuest(
            net.launcher,
            net.place(HUB),
            "run_traffic_generator",
            described.arguments | {"sample_descriptor": 4},
            shared_bytes=described.shared_bytes,
            what="the traffic cannot be sent",
            remedy="see what this machine has with `netrepro doctor`, or use tier 'simulated'",
            descriptors=[self._samples],
            namespaces=[net.place(node) for node in nodes],
        )

    @property
    def began_ns(self) -> int:
        """The time at which the traffic began (ns, CLOCK_REALTIME); 0 before."""
        return int(self._process.numbers[0])

    def wait(self, progress: Callable[[float], None] | None, changes: Changes, now_ns: Callable[[], int]) -> None:
        """Wait for the experiment's end, and make its changes of links when they are due.

        progress : called with the share of the experiment's time that has passed. now_ns : returns the present time
        (CLOCK_REALTIME). Raises NetreproError where the process fails or the kernel refuses a change, and what
        `progress` raises.
        """

        def passed_s() -> float:
            return (now_ns() - self.began_ns) / 1e9 if self.began_ns else -_BEGINNING_PATIENCE_S

        while self._process.guest.poll_for(min(_PATIENCE_S, max(changes.next_s - passed_s(), 0.0))) is None:
            changes.make_due(passed_s())
            if progress is not None and self.began_ns:
                progress(min(passed_s() / self._duration_s, 1.0))
        if self._process.guest.returncode:
            raise self._process.failure()
        if progress is not None:
            progress(1.0)

    def result(self) -> TrafficResult:
        """Return the results of the traffic generator, once it has ended."""
        samples = os.pread(self._samples, os.fstat(self._samples).st_size, 0)
        return self._described.result(self._process.numbers.tobytes(), samples)

    def flow_of_end(self) -> dict[int, int]:
        """Map end_key -> flow, as TrafficDescription.flow_of_end does."""
        return self._described.flow_of_end()

    def close(self) -> None:
        """Close the file of the samples; `result` reads it before."""
        os.close(self._samples)
