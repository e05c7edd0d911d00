"""From measured values to a verdict.

Intervals over repetitions are compared with what is accepted, never single values (95 %:
Student's t for means; resampling where that reaches beyond the quantity's bounds or the repetitions are in two groups;
for counted successes E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22,
1927). A claim's negative control is judged by the same rule, and a claim
whose control does not disagree does not count.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator
from scipy.special import ndtri

from netrepro.claims.models import RECALLED, Claim, Curve, Source
from netrepro.errors import NetreproError, nearest
from netrepro.intervals import CONFIDENCE, Interval, mean_interval, two_groups
from netrepro.tiers_and_profiles import check_tier

Verdict = Literal["agrees", "agrees in direction", "disagrees", "undecided", "untrusted", "not judged", "not measured"]
AGREES: Verdict = "agrees"
DIRECTION: Verdict = "agrees in direction"
DISAGREES: Verdict = "disagrees"
UNDECIDED: Verdict = "undecided"
UNTRUSTED: Verdict = "untrusted"
NOT_JUDGED: Verdict = "not judged"
NOT_MEASURED: Verdict = "not measured"
VERDICTS: tuple[Verdict, ...] = (AGREES, DIRECTION, DISAGREES, UNDECIDED, UNTRUSTED, NOT_JUDGED, NOT_MEASURED)
DECIDED: tuple[Verdict, ...] = (AGREES, DIRECTION, DISAGREES)
LEVELS = (
    "replicated",
    "replicated with differences",
    "partly",
    "not reproduced",
    "undecided",
    "not comparable",
    "not measured",
)

SIZE = 3.0  # how far an effect or a curve may be off and still have the published direction
HALF_OF_THE_TRIALS = 0.5  # a share that shows no effect
ONE_RUN = 0.005  # repetitions whose range is a smaller share of their mean do not vary
_ROUNDING = 1e-9  # share of a band's edge by which arithmetic may miss it
_MOST_REPETITIONS = 10_000  # a larger number is not named


class Measured(BaseModel):
    """The measurement of one claim; plain JSON inside.

    values : one entry a repetition. Effects, absolutes, proportions: floats. Orderings: rankings (names, best
        first). Curves: lists of [x, y], x covering the published x.
    exact : the values are closed forms or enumerations; one entry, no interval.
    successes, trials : instead of values, for a proportion of counted trials.
    control, control_successes, control_trials : the same, measured with the mechanism broken.
    trusted, why : False and the reason, where the run's fidelity check failed.

    Raises NetreproError, naming the claim, for values that are not finite or keys that do not go together.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: str
    values: list[Any] = []
    exact: bool = False
    successes: int | None = None
    trials: int | None = None
    control: list[Any] | None = None
    control_successes: int | None = None
    control_trials: int | None = None
    trusted: bool = True
    why: str = ""

    def __init__(self, **given: Any):
        try:
            super().__init__(**given)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = str(first["loc"][0]) if first["loc"] else ""
            problem = f"{key}: {first['msg']}"
            if first["type"] == "value_error":
                problem = f"{key}{first['ctx']['error']}"
            unknown = first["type"] == "extra_forbidden"
            hint = nearest(key, Measured.model_fields) if unknown else ""
            problem = f"unknown key {key!r}" if unknown else problem
            raise NetreproError(f"measured {given.get('claim')!r}: {problem}", hint) from None

    @field_validator("values", "control", mode="before")
    @classmethod
    def _plain(cls, entries: Any) -> Any:
        return None if entries is None else _plain_entries(entries)

    @model_validator(mode="after")
    def _goes_together(self) -> Measured:
        for prefix, values in (("", self.values), ("control_", self.control)):
            successes, trials = getattr(self, f"{prefix}successes"), getattr(self, f"{prefix}trials")
            if (successes is None) != (trials is None):
                raise ValueError(f"{prefix}successes and {prefix}trials go together")
            if trials is not None and values:
                raise ValueError(f"give {prefix or 'values or '}successes and trials, not both forms")
            if trials is not None and not 0 <= successes <= trials > 0:
                raise ValueError(f"{prefix}successes {successes} of {prefix}trials {trials} cannot be")
        if not self.trusted and not self.why:
            raise ValueError("trusted=False needs why=...")
        return self

    def has_control(self) -> bool:
        """Tell whether the mechanism was broken and measured again."""
        return bool(self.control) or self.control_trials is not None

    def broken(self) -> Measured:
        """Return the control as a measurement of its own; a control of several repetitions is not exact."""
        return Measured(
            claim=self.claim,
            values=self.control or [],
            exact=self.exact and len(self.control or []) == 1,
            successes=self.control_successes,
            trials=self.control_trials,
        )


def _plain_entries(entries: Any, place: str = "") -> Any:
    """Make lists, strings and finite floats out of lists, tuples, arrays and columns."""
    if hasattr(entries, "tolist"):
        entries = entries.tolist()
    if isinstance(entries, (list, tuple)):
        return [_plain_entries(entry, f"{place}[{index}]") for index, entry in enumerate(entries)]
    if isinstance(entries, str):
        return entries
    if not isinstance(entries, (int, float)):
        raise ValueError(f"{place} is {entries!r}, neither a number nor a name")
    if not math.isfinite(entries):
        raise ValueError(f"{place} is {entries}, not a finite number")
    return float(entries)


class Judgement(BaseModel):
    """A verdict and its evidence.

    value, interval : mean and interval of what was compared: for orderings Kendall's tau, for curves the
        distance as a share of the published range, else the claim's unit. None where nothing was compared.
    counts : False where the negative control is missing or weak, was not run, or does not disagree. A claim that
        disagrees counts all the same, as it has shown that it can fail. A claim of a recalled number never counts.
    role, comparable, source : the claim's.
    repetitions : number of repetitions, or of counted trials; 1 where they do not vary.
    """

    model_config = ConfigDict(frozen=True)

    claim: str
    tier: str
    verdict: Verdict
    reason: str
    counts: bool = True
    role: Literal["main", "detail"] = "detail"
    comparable: bool = True
    source: Source = "paper"
    value: float | None = None
    interval: Interval | None = None
    repetitions: int = 0

    @property
    def holds(self) -> bool:
        """A counted verdict that agrees, at least in direction."""
        return self.counts and self.verdict in (AGREES, DIRECTION)


class _Finding(NamedTuple):
    verdict: Verdict
    reason: str
    value: float
    interval: Interval
    repetitions: int


def judge(claim: Claim, measured: Measured | None, tier: str) -> Judgement:
    """Compare the measurement of a claim on a tier with the claim.

    `agrees`: the whole interval is accepted. `agrees in direction`: not all of it is accepted, but all of it lies on
    the published side of no effect. The distance of its mean from no effect is at most SIZE times and at least 1 / SIZE
    of the published one. No effect is an effect's neutral value, half of the trials where the paper says that most show
    it, or no correlation of an ordering. A curve agrees in direction if it rises and falls with the published one in
    every repetition, could have done otherwise, and is at most SIZE times the accepted distance away.
    `disagrees`: the whole interval lies outside, and does not agree in direction. `undecided`: it straddles an edge.
    `not judged`: hardware, or data that we lack, decides the number.

    Raises NetreproError for values that do not have the claim's shape, fewer than two repetitions of
    something inexact, curves that do not cover the published x, and an unknown tier.
    """
    check_tier(tier)
    blank = Judgement(
        claim=claim.id,
        tier=tier,
        verdict=NOT_MEASURED,
        reason="no measurement",
        role=claim.role,
        comparable=claim.comparable,
        source=claim.source,
    )
    if not claim.may_be_judged_on(tier):
        reason = f"not comparable on tier {tier}, only on {', '.join(claim.comparable_on)}"
        return blank.model_copy(update={"reason": reason})
    if measured is None:
        return blank.model_copy(update={"reason": f"needs {claim.needs}"}) if claim.needs else blank
    if measured.claim != claim.id:
        raise NetreproError(f"claim {claim.id!r} was given the measurement of {measured.claim!r}")
    if not measured.trusted:
        return blank.model_copy(update={"verdict": UNTRUSTED, "reason": measured.why})
    finding = _find(claim, measured)
    if not claim.comparable:
        shown = {"verdict": NOT_JUDGED, "reason": "hardware or data decides the number", "counts": False}
        return blank.model_copy(update=finding._asdict() | shown)
    counts, remark = _judge_control(claim, measured, finding.verdict)
    reason = f"{finding.reason}; {remark}" if remark else finding.reason
    return blank.model_copy(update=finding._asdict() | {"counts": counts, "reason": reason})


def level_rests_on(judgements: Iterable[_Judged]) -> list[_Judged]:
    """Return the main claims that are judged, which may be none; where a paper declares none, all that are judged. A
    recalled number is no published one: no level rests on it."""
    every = list(judgements)
    main = [each for each in every if each.role == "main"]
    judged = [each for each in main or every if each.comparable and each.verdict != NOT_JUDGED]
    return [each for each in judged if each.source != RECALLED]


def coverage(judgements: Iterable[_Judged]) -> tuple[int, int]:
    """Return (number of claims that are decided and count, number of all claims), among those that the level rests
    on."""
    judged = level_rests_on(judgements)
    return len(_decided(judged)), len(judged)


def coverage_text(judgements: Iterable[_Judged]) -> str:
    """Put the coverage into words: "3 of 4 main claims", or "11 of 32 claims" where none is main."""
    every = list(judgements)
    judged = level_rests_on(every)
    if every and not judged:
        return "no main claim can be judged here"
    main = "main " if any(each.role == "main" for each in every) else ""
    return f"{len(_decided(judged))} of {len(judged)} {main}claims"


def paper_level(judgements: Iterable[_Judged]) -> str:
    """Return one of LEVELS, from the main claims: replicated (all agree), replicated with differences (all agree or
    agree in direction), partly (some hold, some disagree), not reproduced (all disagree), undecided (a claim
    that is not decided would decide the level), not comparable (no main claim can be judged here, as hardware or data
    decides each, or its number is only recalled), not measured (no claim is).

    For a paper without main claims, the level follows from all its judged claims. Where fewer than half of them are
    decided, it is at most partly.
    """
    every = list(judgements)
    judged = level_rests_on(every)
    if every and not judged:
        return "not comparable"
    verdicts = _decided(judged)
    holds, fails = [each for each in verdicts if each != DISAGREES], DISAGREES in verdicts
    is_main = bool(judged) and judged[0].role == "main"
    is_open = any(each.counts and each.verdict == UNDECIDED for each in judged)
    if not verdicts and all(each.verdict in (UNTRUSTED, NOT_MEASURED) for each in judged):
        return "not measured"
    if holds and fails:
        return "partly"
    if not verdicts or is_open or (is_main and len(verdicts) < len(judged)):
        return "undecided"
    if fails:
        return "not reproduced"
    if 2 * len(verdicts) < len(judged):
        return "partly"
    return "replicated" if all(each == AGREES for each in holds) else "replicated with differences"


def _decided(judged: Iterable[_Judged]) -> list[str]:
    return [each.verdict for each in judged if each.counts and each.verdict in DECIDED]


class _Judged(Protocol):
    @property
    def verdict(self) -> str: ...
    @property
    def counts(self) -> bool: ...
    @property
    def role(self) -> str: ...
    @property
    def comparable(self) -> bool: ...
    @property
    def source(self) -> str: ...


def _judge_control(claim: Claim, measured: Measured, verdict: Verdict) -> tuple[bool, str]:
    """Return (True where the claim counts, a comment on its control or its number)."""
    if claim.source == RECALLED:
        return False, "its published number is only recalled, and supports nothing"
    # A claim that disagrees has shown that it can fail.
    if not claim.control:
        return verdict == DISAGREES, "it has no control"
    if claim.control_weakness:
        return verdict == DISAGREES, f"its control is weak: {claim.control_weakness}"
    if not measured.has_control():
        return verdict == DISAGREES, "the control was not run"
    broken = _find(claim, measured.broken(), "control of ").verdict
    if broken == DISAGREES:
        return True, ""
    if verdict == DISAGREES:
        return True, f"with the mechanism broken, the verdict is {broken!r}; the claim disagrees, so it counts anyway"
    return False, f"control did not flip: with the mechanism broken, the verdict is {broken!r}"


def _find(claim: Claim, measured: Measured, whose: str = "") -> _Finding:
    finders: dict[str, Callable[[Claim, Measured, str], _Finding]] = {
        "ordering": _find_ordering,
        "curve": _find_curve,
    }
    return finders.get(claim.kind, _find_number)(claim, measured, f"{whose}{claim.id}")


def _find_number(claim: Claim, measured: Measured, name: str) -> _Finding:
    if measured.trials is not None and measured.successes is not None:
        if claim.kind != "proportion":
            raise NetreproError(f"{name}: successes and trials are for proportions; this is {claim.kind!r}")
        value, repetitions = measured.successes / measured.trials, measured.trials
        interval = wilson_interval(measured.successes, measured.trials)
        if measured.exact:
            interval = Interval(value, value)
    else:
        if not all(isinstance(entry, float) for entry in measured.values):
            raise _shape_error(name, claim, "a number a repetition")
        least, most = claim.limits
        if not all(least <= entry <= most for entry in measured.values):
            what = "a proportion" if claim.kind == "proportion" else "it"
            raise NetreproError(f"{name}: {what} lies in {least:g} to {most:g}; got {measured.values}")
        value, interval = _mean_interval(measured.values, measured.exact, name, claim.limits)
        repetitions = len(measured.values)
    neutral = claim.neutral if claim.kind == "effect" else None
    if measured.trials and claim.expected > HALF_OF_THE_TRIALS:  # most trials show it; a smaller share is a quantity
        neutral = HALF_OF_THE_TRIALS
    verdict, reason = _place(claim, value, interval, repetitions, neutral)
    if repetitions > 1 and not measured.trials and not claim.exact and _are_one_run(measured.values):
        reason += f"; its {repetitions} repetitions differ by less than {ONE_RUN:.1%}, so they count as one"
        repetitions = 1
    return _Finding(verdict, reason + _groups(measured.values), value, interval, repetitions)


def _groups(values: Sequence[float]) -> str:
    """Say that repetitions are in two groups, whose mean may be no value that ever comes; "" where they are not."""
    if (groups := two_groups(values)) is None:
        return ""
    low, high = (f"{len(group)} about {statistics.fmean(group):.3g}" for group in groups)
    return f"; its repetitions are in two groups, {low} and {high}"


def _are_one_run(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= ONE_RUN * abs(statistics.fmean(values))


def _place(
    claim: Claim, value: float, interval: Interval, repetitions: int, neutral: float | None
) -> tuple[Verdict, str]:
    """Tell where an interval lies: in the accepted band, on which side of no effect, outside, or across an edge."""
    low, high = claim.accepted_band()
    slack = _ROUNDING * max(abs(edge) for edge in (low, high) if math.isfinite(edge))
    band = f"{low:.4g} to {high:.4g}"
    if low - slack <= interval.low and interval.high <= high + slack:
        return AGREES, f"inside the accepted {band}"
    overlaps = interval.low <= high + slack and interval.high >= low - slack
    share = math.nan  # of the published effect; NaN where there is no direction
    if neutral is not None and neutral != claim.expected:
        share = (value - neutral) / (claim.expected - neutral)
    is_some_effect = neutral is not None and not interval.low <= neutral <= interval.high
    if is_some_effect and not math.isnan(share):
        if 1 / SIZE <= share <= SIZE:
            return DIRECTION, f"not inside the accepted {band}, on the published side of {neutral:g}"
        if not overlaps:
            return DISAGREES, f"outside the accepted {band}: {share:.2g} times the published effect"
    if not overlaps:
        return DISAGREES, f"outside the accepted {band}"
    ways = [[low, high]]  # to a verdict: leave these edges
    if neutral is not None and not is_some_effect and 1 / SIZE <= share <= SIZE:
        ways.append([neutral])
        band += f", and includes no effect ({neutral:g})"
    more = min(_repetitions_to_leave(edges, value, interval, repetitions) for edges in ways)
    return UNDECIDED, f"straddles the accepted {band}; {_more(more)}"


def _repetitions_to_leave(edges: Iterable[float], value: float, interval: Interval, repetitions: int) -> float:
    """Compute how many repetitions make the interval so narrow that it leaves these edges, if the mean stays."""
    straddled = [edge for edge in edges if interval.low <= edge <= interval.high]
    gap = min((abs(value - edge) for edge in straddled), default=0.0)
    half = max(interval.high - value, value - interval.low)
    return max(repetitions + 1, math.ceil(repetitions * (half / gap) ** 2)) if gap > 0 else math.inf


def _more(repetitions: float) -> str:
    if repetitions > _MOST_REPETITIONS:
        return f"not even {_MOST_REPETITIONS:,} repetitions would decide: the mean lies on the edge"
    return f"about {repetitions:,.0f} repetitions would decide"


def _find_ordering(claim: Claim, measured: Measured, name: str) -> _Finding:
    taus = []
    for ranking in measured.values:
        if not isinstance(ranking, list) or not all(isinstance(entry, str) for entry in ranking):
            raise _shape_error(name, claim, "a ranking (list of names, best first) a repetition")
        if sorted(ranking) != sorted(claim.expected):
            raise NetreproError(f"{name}: ranking {ranking} must name each of {claim.expected} once")
        taus.append(kendall_tau(range(len(ranking)), [claim.expected.index(entry) for entry in ranking]))
    value, interval = _mean_interval(taus, measured.exact, name)
    interval = Interval(max(interval.low, -1.0), min(interval.high, 1.0))
    least = claim.accept.kendall_at_least
    assert least is not None
    reason = f"Kendall tau {value:.3g} against the published order, least accepted {least:g}"
    verdict: Verdict = UNDECIDED
    if interval.low >= least - _ROUNDING:
        verdict = AGREES
    elif interval.low > 0 and value >= 1 / SIZE:
        verdict = DIRECTION
    elif interval.high < least - _ROUNDING:
        verdict = DISAGREES
    else:
        ways = [[least], [0.0]] if value >= 1 / SIZE else [[least]]
        reason += f"; {_more(min(_repetitions_to_leave(edges, value, interval, len(taus)) for edges in ways))}"
    return _Finding(verdict, reason, value, interval, len(taus))


def _find_curve(claim: Claim, measured: Measured, name: str) -> _Finding:
    xs, published = np.transpose(claim.expected)
    distances, taus = [], []
    for curve in measured.values:
        ours = np.interp(xs, *_curve_over(curve, xs, claim, name))
        distances.append(float(np.sqrt(np.mean((ours - published) ** 2)) / np.ptp(published)))
        taus.append(kendall_tau(published, ours))
    value, interval = _mean_interval(distances, measured.exact, name)
    interval = Interval(max(interval.low, 0.0), interval.high)
    most = claim.accept.curve_distance
    assert most is not None
    reason = f"distance {value:.3g} of the published range, most accepted {most:g}"
    if interval.high <= most * (1 + _ROUNDING):
        return _Finding(AGREES, reason, value, interval, len(distances))
    moves = all(tau > 0 for tau in taus)
    if moves and not claim.monotonic and value <= SIZE * most:
        return _Finding(DIRECTION, f"{reason}; it moves as published", value, interval, len(distances))
    if interval.low <= most * (1 + _ROUNDING):
        more = _more(_repetitions_to_leave([most], value, interval, len(distances)))
        return _Finding(UNDECIDED, f"{reason}; {more}", value, interval, len(distances))
    if moves:
        why = "it can only move this way" if claim.monotonic else "it moves as published, but far from it"
        return _Finding(DISAGREES, f"{reason}; {why}", value, interval, len(distances))
    return _Finding(DISAGREES, f"{reason}; it does not move as published", value, interval, len(distances))


def _curve_over(curve: Any, xs: np.ndarray, claim: Claim, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return our (x, y), x ascending, and check that it covers the published x."""
    pairs: Curve = curve if isinstance(curve, list) else []
    if not pairs or not all(
        isinstance(point, list) and [type(part) for part in point] == [float, float] for point in pairs
    ):
        raise _shape_error(name, claim, "a curve (list of [x, y]) a repetition")
    ours_x, ours_y = np.transpose(sorted(pairs))
    if len(np.unique(ours_x)) < len(ours_x):
        raise NetreproError(f"{name}: the measured curve has two points at one x", "average them first")
    if ours_x[0] > xs[0] or ours_x[-1] < xs[-1]:
        raise NetreproError(
            f"{name}: published x is {xs[0]:g} to {xs[-1]:g}, ours only {ours_x[0]:g} to {ours_x[-1]:g}",
            "measure over the whole published range; nothing is extrapolated",
        )
    return ours_x, ours_y


def _shape_error(name: str, claim: Claim, words: str) -> NetreproError:
    return NetreproError(f"{name}: kind {claim.kind!r} needs {words}")


def _mean_interval(
    values: Sequence[float], exact: bool, name: str, limits: tuple[float, float] = (-math.inf, math.inf)
) -> tuple[float, Interval]:
    if exact:
        if len(values) != 1:
            raise NetreproError(f"{name}: exact=True takes one value; got {len(values)}")
        return values[0], Interval(values[0], values[0])
    if len(values) < 2:
        raise NetreproError(
            f"{name}: {len(values)} repetition(s) give no interval",
            "repeat at least twice with different seeds, or say exact=True for a closed form",
        )
    return statistics.fmean(values), mean_interval(values, limits)


def wilson_interval(successes: int, trials: int) -> Interval:
    """Compute the 95 % score interval of a proportion (Wilson 1927, without continuity correction)."""
    z, share = float(ndtri((1 + CONFIDENCE) / 2)), successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    return Interval(max(centre - half, 0.0), min(centre + half, 1.0))


def kendall_tau(left: Sequence[float] | np.ndarray, right: Sequence[float] | np.ndarray) -> float:
    """Compute Kendall's tau-b of two equally long sequences, -1 to 1; 0 where one of them is constant."""
    signs = [np.sign(np.subtract.outer(each, each)) for each in (np.asarray(left), np.asarray(right))]
    pairs = math.sqrt(float(np.abs(signs[0]).sum()) * float(np.abs(signs[1]).sum()))
    return float((signs[0] * signs[1]).sum()) / pairs if pairs else 0.0
