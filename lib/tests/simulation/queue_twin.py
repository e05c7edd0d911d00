"""Queue rules written once more, straight from their sources and with whole queues: the oracle of the compiled ones."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

MASK = (1 << 64) - 1


class Xoshiro:
    """xoshiro256++ seeded by splitmix64, stream 0."""

    def __init__(self, seed: int):
        def splitmix(state: int) -> tuple[int, int]:
            state = (state + 0x9E3779B97F4A7C15) & MASK
            z = state
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            return state, z ^ (z >> 31)

        _, mixer = splitmix(seed)
        self.state = []
        for _ in range(4):
            mixer, word = splitmix(mixer)
            self.state.append(word)

    def uniform(self) -> float:
        def rotate(x: int, k: int) -> int:
            return ((x << k) | (x >> (64 - k))) & MASK

        s = self.state
        result = (rotate((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        shifted = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = rotate(s[3], 45)
        return (result >> 11) * 2.0**-53


@dataclass
class Waiting:
    name: int
    bytes: int
    since: int


class CoDelQueue:
    """RFC 8289, section 5: enqueue, dequeue and dodequeue as printed, without ECN, the interval in whole units.

    version : "rfc8289", or the other two by what they change in dequeue.
    """

    def __init__(self, limit: int, target: int, interval: int, version: str = "rfc8289", maxpacket: int = 1514):
        self.limit, self.target, self.interval = limit, target, interval
        self.version, self.maxpacket = version, maxpacket
        self.queue: deque[Waiting] = deque()
        self.first_above_time = self.drop_next = self.count = self.lastcount = 0
        self.has_first_above = self.dropping = False
        self.dropped: list[int] = []

    def enqueue(self, name: int, size: int, now: int) -> None:
        if len(self.queue) < self.limit:
            self.queue.append(Waiting(name, size, now))
        else:
            self.dropped.append(name)

    def control_law(self, t: int) -> int:
        return t + int(self.interval / math.sqrt(self.count))

    def dodequeue(self, now: int) -> tuple[Waiting | None, bool]:
        if not self.queue:
            self.has_first_above = False
            return None, False
        packet = self.queue.popleft()
        if now - packet.since < self.target or sum(other.bytes for other in self.queue) <= self.maxpacket:
            self.has_first_above = False
            return packet, False
        if not self.has_first_above:
            self.has_first_above, self.first_above_time = True, now + self.interval
            return packet, False
        return packet, now >= self.first_above_time

    def dequeue(self, now: int) -> int | None:
        packet, ok_to_drop = self.dodequeue(now)
        if self.dropping:
            if not ok_to_drop:
                self.dropping = False
            while self.dropping and now >= self.drop_next:
                assert packet is not None
                self.dropped.append(packet.name)
                self.count += 1
                packet, ok_to_drop = self.dodequeue(now)
                if not ok_to_drop:
                    self.dropping = False
                else:
                    self.drop_next = self.control_law(self.drop_next)
        elif ok_to_drop:
            assert packet is not None
            self.dropped.append(packet.name)
            packet, ok_to_drop = self.dodequeue(now)
            self.dropping = True
            ago = (now - self.drop_next) / self.interval
            if self.version == "ns2_2012":
                self.count = self.count - 1 if self.count > 1 and ago < 16 else 1
            elif self.version == "draft01":
                self.count = self.count - 2 if self.count > 2 and ago < 8 else 1
            else:
                delta = self.count - self.lastcount
                self.count = delta if delta > 1 and ago < 16 else 1
            self.drop_next = self.control_law(now)
            self.lastcount = self.count
        return packet.name if packet else None


class RedQueue:
    """Floyd and Jacobson, Fig. 2, without ECN; pow() is the library's, so averages agree to rounding only.

    Options as in the description of ns-2's: gentle, wait, by_bytes (with the mean packet), and adaptive, which is the
    time between corrections.
    """

    def __init__(self, limit, minimum, maximum, max_probability, weight, packet_time, seed, **options):
        self.limit, self.minimum, self.maximum = limit, minimum, maximum
        self.max_probability, self.weight, self.packet_time = max_probability, weight, packet_time
        self.random = Xoshiro(seed)
        self.average, self.count = 0.0, -1
        self.sizes: list[int] = []  # of packets since the last drop, the first one after it left out at the start
        self.gentle, self.wait = options.get("gentle", False), options.get("wait", False)
        self.mean, self.interval = options.get("mean", 0), options.get("interval", 0)
        self.corrected = 0

    def correct(self, now):
        if not self.interval or now - self.corrected <= self.interval:
            return
        place = (self.average - self.minimum) / (self.maximum - self.minimum)
        if place < 0.4 and self.max_probability > 0.01:
            self.max_probability *= 0.9
            self.corrected = now
        elif place > 0.6 and self.max_probability < 0.5:
            self.max_probability += min(0.01, 0.25 * self.max_probability)
            self.corrected = now

    def drops(self, waiting: int, idle_since: int, now: int, size: int = 1514) -> bool:
        """waiting : packets of 1514 bytes."""
        queue = waiting * 1514 / self.mean if self.mean else waiting
        if waiting == 0 and idle_since <= now:
            self.average *= (1 - self.weight) ** ((now - idle_since) // self.packet_time)
        else:
            self.average = (1 - self.weight) * self.average + self.weight * queue
        self.correct(now)
        if waiting >= self.limit:
            self.count, self.sizes = 0, []
            return True
        if self.average < self.minimum:
            self.count, self.sizes = -1, []
            return False
        if self.average < self.maximum or (self.gentle and self.average < 2 * self.maximum):
            self.count += 1
            if self.count > 0:
                self.sizes.append(size)
            if self.average < self.maximum:
                base = self.max_probability * (self.average - self.minimum) / (self.maximum - self.minimum)
            else:  # from max_p at the threshold to 1 at twice that
                base = self.max_probability + (self.average / self.maximum - 1) * (1 - self.max_probability)
            passed = (sum(self.sizes) / self.mean if self.mean else self.count) * base
            if self.wait and passed < 1:
                return False
            room = 2 - passed if self.wait else 1 - passed
            share = size / self.mean if self.mean else 1
            if room > 0 and self.random.uniform() >= base / room * share:
                return False
        self.count, self.sizes = 0, []
        return True


class PieQueue:
    """RFC 8033, with a queue of (size, name) that a link of `rate` bytes a millisecond sends, and a real timer.

    Times are whole microseconds, as are the clock's steps: step() once for each. Marks and derandomisation included.
    """

    def __init__(self, limit, target, update, burst, rate, seed):
        self.limit, self.target, self.update, self.max_burst, self.rate = limit, target, update, burst, rate
        self.random = Xoshiro(seed)
        self.drop_prob = self.accu_prob = 0.0
        self.qdelay_old, self.burst_allowance = 0, burst
        self.busy_until, self.next_update = 0, None
        self.starts: deque[tuple[int, int]] = deque()  # (start of sending, bytes) of packets that wait

    def waiting(self, now):
        while self.starts and self.starts[0][0] <= now:
            self.starts.popleft()
        return len(self.starts), sum(size for _, size in self.starts)

    def delay(self, now):
        return max(self.busy_until - now, 0)

    def calculate_drop_prob(self, now):
        qdelay = self.delay(now)
        p = 0.125 * (qdelay - self.target) / 1e6 + 1.25 * (qdelay - self.qdelay_old) / 1e6
        for bound, divisor in ((1e-6, 2048), (1e-5, 512), (1e-4, 128), (1e-3, 32), (1e-2, 8), (1e-1, 2)):
            if self.drop_prob < bound:
                p /= divisor
                break
        if self.drop_prob >= 0.1 and p > 0.02:
            p = 0.02
        self.drop_prob += p
        if qdelay < self.target // 2 and self.qdelay_old < self.target // 2:
            self.drop_prob *= 0.98
        self.drop_prob = min(max(self.drop_prob, 0.0), 1.0)
        self.burst_allowance = max(0, self.burst_allowance - self.update)
        self.qdelay_old = qdelay

    def tick(self, now):
        if self.next_update is not None and now == self.next_update:
            self.calculate_drop_prob(now)
            self.next_update += self.update

    def enque(self, size, now):
        """True when the packet is dropped."""
        if self.next_update is None:
            self.next_update = now + self.update
        packets, waiting_bytes = self.waiting(now)
        if packets >= self.limit:
            self.accu_prob = 0.0
            return True
        dropped = self.burst_allowance == 0 and self.drop_early(waiting_bytes)
        calm = self.delay(now) < self.target // 2 and self.qdelay_old < self.target // 2
        if self.drop_prob == 0 and calm:
            self.burst_allowance = self.max_burst
        if not dropped:
            start = max(self.busy_until, now)
            self.busy_until = start + size * 1000 // self.rate
            self.starts.append((start, size))
        return dropped

    def drop_early(self, waiting_bytes):
        if self.drop_prob == 0:
            self.accu_prob = 0.0
        if (self.qdelay_old < self.target // 2 and self.drop_prob < 0.2) or waiting_bytes <= 2 * 1514:
            return False
        self.accu_prob += self.drop_prob
        if self.accu_prob < 0.85:
            return False
        if self.accu_prob < 8.5 and self.random.uniform() >= self.drop_prob:
            return False
        self.accu_prob = 0.0
        return True


class SfqQueue:
    """Linux's sch_sfq in words: buckets in a ring, each with an allotment that may be overdrawn by one packet."""

    def __init__(self, limit, quantum, bucket_of, buckets):
        self.limit, self.quantum, self.bucket_of = limit, quantum, bucket_of
        self.ring: list[int] = []  # buckets with packets, the one to be served first
        self.packets: dict[int, list[Waiting]] = {}
        self.allotment: dict[int, int] = {}
        self.slots = min(limit, buckets)
        self.by_length: list[int] = []  # the bucket that has changed its length last comes first

    def changed(self, bucket):
        self.by_length = [bucket, *(other for other in self.by_length if other != bucket)]

    def enqueue(self, packet, flow):
        """The name of the packet that is dropped, if any."""
        bucket = self.bucket_of(flow)
        if bucket not in self.ring:
            if len(self.ring) == self.slots:
                return packet.name
            self.ring.append(bucket)
            self.packets[bucket], self.allotment[bucket] = [], self.quantum
        if len(self.packets[bucket]) == 127:
            return packet.name
        self.packets[bucket].append(packet)
        self.changed(bucket)
        if sum(map(len, self.packets.values())) <= self.limit:
            return None
        longest = max(map(len, self.packets.values()))
        candidates = self.by_length if longest > 1 else self.ring
        chosen = next(b for b in candidates if len(self.packets[b]) == longest)
        victim = self.packets[chosen].pop()
        self.changed(chosen)
        if not self.packets[chosen]:
            self.ring.remove(chosen)
        return victim.name

    def dequeue(self):
        if not self.ring:
            return None
        while self.allotment[self.ring[0]] <= 0:
            self.allotment[self.ring[0]] += self.quantum
            self.ring.append(self.ring.pop(0))
        bucket = self.ring[0]
        packet = self.packets[bucket].pop(0)
        self.changed(bucket)
        self.allotment[bucket] -= packet.bytes
        if not self.packets[bucket]:
            self.ring.pop(0)
        return packet.name


class FqCoDelQueue:
    """RFC 8290, section 4, over CoDelQueue; of an overfull buffer the fattest queue loses half, 64 packets at most."""

    def __init__(self, limit, target, interval, quantum, flows, queue_of):
        self.limit, self.quantum, self.queue_of = limit, quantum, queue_of
        self.queues = [CoDelQueue(1 << 60, target, interval) for _ in range(flows)]
        self.credits = [0] * flows
        self.new: list[int] = []
        self.old: list[int] = []
        self.sizes: dict[int, int] = {}

    def enqueue(self, name, size, flow, now):
        """Names of the packets that are dropped."""
        number = self.queue_of(flow)
        self.sizes[name] = size
        self.queues[number].enqueue(name, size, now)
        if number not in self.new and number not in self.old:
            self.credits[number] = self.quantum
            self.new.append(number)
        if sum(len(queue.queue) for queue in self.queues) <= self.limit:
            return []
        backlogs = [sum(packet.bytes for packet in queue.queue) for queue in self.queues]
        fattest = self.queues[backlogs.index(max(backlogs))].queue
        dropped = [fattest.popleft()]
        while len(dropped) < 64 and sum(packet.bytes for packet in dropped) < max(backlogs) // 2:
            dropped.append(fattest.popleft())
        return [packet.name for packet in dropped]

    def dequeue(self, now):
        """The name of the packet that is sent, or None, and names of those that were dropped."""
        before = [len(queue.dropped) for queue in self.queues]
        sent = self.scheduled(now)
        return sent, [name for queue, n in zip(self.queues, before, strict=True) for name in queue.dropped[n:]]

    def scheduled(self, now):
        while self.new or self.old:
            turns = self.new or self.old
            number = turns[0]
            if self.credits[number] <= 0:
                self.credits[number] += self.quantum
                turns.pop(0)
                self.old.append(number)
                continue
            name = self.queues[number].dequeue(now) if self.queues[number].queue else None
            if name is not None:
                self.credits[number] -= self.sizes[name]
                return name
            was_new = turns is self.new
            turns.pop(0)
            if was_new and self.old:
                self.old.append(number)
        return None


class FqQueue:
    """Linux's sch_fq (6.12) in words, where nothing is paced; times are whole picoseconds.

    Lists in place of counters: `internal` is the fast path; `flows` maps a bucket to its credit, packets and end of
    activity, in milliseconds.
    """

    def __init__(self, limit, flow_limit, quantum, initial_quantum, ce_threshold, refill_ms, flow_of):
        self.limit, self.flow_limit, self.quantum, self.initial_quantum = limit, flow_limit, quantum, initial_quantum
        self.ce_threshold, self.refill_ms, self.flow_of = ce_threshold, refill_ms, flow_of
        self.internal: list[Waiting] = []
        self.packets: dict[int, list[Waiting]] = {}
        self.credit: dict[int, int] = {}
        self.age_ms: dict[int, int] = {}
        self.new: list[int] = []
        self.old: list[int] = []

    def enqueue(self, packet, flow):
        """True when the packet is taken."""
        queued = sum(map(len, self.packets.values()))
        if queued >= self.limit:
            return False
        if queued == 0 and len(self.internal) < 8:
            self.internal.append(packet)
            return True
        number = self.flow_of(flow)
        waiting = self.packets.setdefault(number, [])
        if len(waiting) >= self.flow_limit:
            return False
        self.credit.setdefault(number, self.initial_quantum)
        if number not in self.new and number not in self.old:
            self.new.append(number)
            if number in self.age_ms and packet.since // 10**9 > self.age_ms[number] + self.refill_ms:
                self.credit[number] = max(self.credit[number], self.quantum)
        waiting.append(packet)
        return True

    def dequeue(self, now):
        """The name of the packet that is sent, and whether its wait marks it; or None."""
        if not self.internal and not any(self.packets.values()):
            return None
        if self.internal:
            return self.internal.pop(0).name, False
        while self.new or self.old:
            turns = self.new or self.old
            number = turns[0]
            if self.credit[number] <= 0:
                self.credit[number] += self.quantum
                self.old.append(turns.pop(0))
            elif self.packets[number]:
                packet = self.packets[number].pop(0)
                self.credit[number] -= packet.bytes
                return packet.name, now - packet.since > self.ce_threshold
            elif turns is self.new:
                self.old.append(turns.pop(0))
            else:
                self.age_ms[turns.pop(0)] = now // 10**9
        return None


class DualPi2Queue:
    """RFC 9332, appendix A: the pseudocode of dualpi2_enqueue, dualpi2_dequeue, laqm and dualpi2_update with its
    overload (A.2), the scheduler a weighted round robin by credit. A likelihood is a draw of 32 bits from `draws`,
    and p^2 is two of p, as the RFC allows and Linux does it. Times are whole picoseconds; update() is the timer.
    """

    def __init__(self, limit, target, alpha, beta, k, step, classic_share, draws):
        self.limit, self.target, self.alpha, self.beta, self.k = limit, target, alpha, beta, k
        self.step, self.draws = step, iter(draws)
        # Linux's are whole hundredths, so that a credit of exactly 0 is met; these are millionths.
        self.classic_weight = round(classic_share * 10**6)
        self.l4s_weight = 10**6 - self.classic_weight
        self.lq: list[tuple[Waiting, bool, int]] = []  # packet, capable, found in the L queue
        self.cq: list[tuple[Waiting, bool, int]] = []
        self.p, self.prevq = 0.0, 0
        self.credit = 1514 * (self.classic_weight - self.l4s_weight)

    def bytes(self):
        return sum(entry[0].bytes for entry in (*self.lq, *self.cq))

    def recur(self, likelihood):
        return next(self.draws) / 2**32 < likelihood

    def enqueue(self, packet, ecn):
        """ecn: the two bits of the IP header. True when the packet is taken."""
        if len(self.lq) + len(self.cq) >= self.limit:
            return False
        queue = self.lq if ecn % 2 == 1 else self.cq
        queue.append((packet, ecn != 0, len(self.lq)))
        return True

    def dequeue(self, now):
        """(name of the packet that is sent and whether it is marked, or None; names of those that are dropped)."""
        dropped = []
        while self.lq or self.cq:
            two = bool(self.lq and self.cq)
            from_l = bool(self.lq) and not (two and self.credit > 0)
            packet, capable, found_in_l = (self.lq if from_l else self.cq).pop(0)
            marked = lost = False
            p_cl = self.k * self.p
            if self.bytes() >= 2 * 1514:
                if from_l and p_cl <= 1:
                    marked = self.recur(p_cl)
                elif self.recur(self.p) and self.recur(self.p):  # p_C
                    lost = from_l or not capable or p_cl > 1
                    marked = not lost
                elif from_l:
                    marked = True  # p_CL is 1
            if lost:
                dropped.append(packet.name)
                continue
            if from_l and found_in_l > 1 and now - packet.since > self.step:  # laqm
                marked = True
            if two:
                self.credit += packet.bytes * (self.classic_weight if from_l else -self.l4s_weight)
            return (packet.name, marked), dropped
        self.credit = 1514 * (self.classic_weight - self.l4s_weight)
        return None, dropped

    def update(self, now):
        curq = max([now - queue[0][0].since for queue in (self.lq, self.cq) if queue], default=0)
        self.p += self.alpha * (curq - self.target) / 1e12 + self.beta * (curq - self.prevq) / 1e12
        self.p = min(max(self.p, 0.0), 1.0)
        self.prevq = curq
