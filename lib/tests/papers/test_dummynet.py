"""Dummynet Revisited: what the cases are made of, and that the claims can fail. No test asserts a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from netrepro.claims import judge, load_claims
from netrepro.dummynet import Dummynet, synthetic_headers
from netrepro.errors import NetreproError
from netrepro.papers.dummynet import study as paper


def made_up(**costs: tuple[float, float]) -> paper.Runs:
    """Runs in which each case costs what is given (arrivals, timer), a little different in each repetition."""
    table = {
        "A": (643, 0),
        "B": (1044, 0),
        "B100": (4668, 0),
        "C0": (1740, 0),
        "Cd": (1600, 700),
        "Cr": (1700, 177),
        "A again": (643, 0),
        "B50": (2838, 0),
        "match before the others": (1044, 0),
        "match half-way": (2838, 0),
        "Cd behind 10000 rules": (366_000, 760),
    } | costs
    rows = [
        (case, repetition, batch, arrivals * factor, timer * factor)
        for case, (arrivals, timer) in table.items()
        for repetition, factor in enumerate((0.99, 1.0, 1.01))
        for batch in range(3)
    ]
    batches = pd.DataFrame(rows, columns=["case", "repetition", "batch", "arrivals_ns", "timer_ns"])
    kernel = pd.DataFrame(
        [
            (case, repetition, batch, cost, cost)
            for case, cost in {
                "A": 643,
                "B": 1044,
                "B100": 4668,
                "99 rules behind": 1044,
                "C0": 1740,
                "Cr": 1877,
            }.items()
            for repetition in range(3)
            for batch in range(3)
        ],
        columns=["case", "repetition", "batch", "wall_ns", "processor_ns"],
    )
    batches = batches.assign(whole_ns=batches.arrivals_ns + batches.timer_ns)
    single = batches[batches.case.isin(paper.MAIN)]
    single = single.assign(whole_ns=single.whole_ns * (1 + single.batch))
    return paper.Runs(batches, single, kernel, 0, 100, 20.0)


def verdicts(runs: paper.Runs) -> dict[str, str]:
    claims = load_claims("dummynet")
    return {each.claim: judge(claims.claim(each.claim), each, "rootless") for each in paper.measured_claims(runs)}


def test_a_machine_like_the_papers_makes_every_claim_agree_and_all_with_a_sound_control_count():
    found, claims = verdicts(made_up()), load_claims("dummynet").claims
    assert set(found) == {claim.id for claim in claims}
    of_hardware = {claim.id for claim in claims if not claim.comparable}
    assert {name for name, each in found.items() if each.verdict == "not judged"} == of_hardware
    assert {each.verdict for name, each in found.items() if name not in of_hardware} == {"agrees"}
    uncounted = {name for name, each in found.items() if not each.counts} - of_hardware
    assert uncounted == {"order-of-costs"}  # its control comes out in direction, which is no flip


def test_the_class_reports_numbers_disagree_about_the_delay():
    found = verdicts(made_up(A=(51, 0), C0=(182, 0), Cd=(117, 0), Cr=(181, 0), B=(75, 0), B100=(354, 0)))
    assert found["delay-costs"].verdict == "disagrees"
    assert found["order-of-costs"].verdict != "agrees"


def untrusted(runs: paper.Runs) -> set[str]:
    return {name for name, each in verdicts(runs).items() if each.verdict == "untrusted"}


OF_LINUX = {"linux-cost-per-rule"}
OF_ENGINE = {claim.id for claim in load_claims("dummynet").claims} - OF_LINUX


def test_a_scattered_case_or_a_packet_out_of_order_makes_the_run_untrusted():
    runs = made_up()
    assert paper.check(runs).holds.all() and not untrusted(runs)
    scattered = runs.batches.assign(whole_ns=runs.batches.whole_ns * (1 + runs.batches.batch % 3))
    for broken in (replace(runs, batches=scattered), replace(runs, out_of_order=1)):
        assert untrusted(broken) == OF_ENGINE
        assert paper.answer(broken).startswith("Untrusted (")


def disturb(table: pd.DataFrame, case: str, factor: float) -> pd.DataFrame:
    """All batches of one repetition of a case slower by a factor, as if something else had run beside it."""
    hit = (table.case == case) & (table.repetition == 2)
    columns = [name for name in table if str(name).endswith("_ns")]
    return table.assign(**{name: table[name] * np.where(hit, factor, 1.0) for name in columns})


@pytest.mark.parametrize("case", ["A", "B50", "B100", "Cd"])
def test_one_disturbed_repetition_makes_the_run_untrusted_however_steady_its_batches_are(case):
    runs = made_up()
    disturbed = replace(runs, batches=disturb(runs.batches, case, 1.5))
    assert untrusted(disturbed) == OF_ENGINE
    failed = paper.check(disturbed).query("not holds")
    assert list(failed.check) == [f"spread of repetitions, worst in {case}"]
    for other, factor in ((case, 1.15), (paper.BEHIND_MANY, 1.5)):  # that control only has to break a bound
        assert not untrusted(replace(runs, batches=disturb(runs.batches, other, factor)))


def test_a_disturbed_repetition_of_linux_is_no_reason_to_distrust_the_engine():
    runs = made_up()
    for case in ("A", "B", "B100", "99 rules behind"):
        assert untrusted(replace(runs, kernel=disturb(runs.kernel, case, 1.5))) == OF_LINUX
    scattered = runs.kernel.assign(processor_ns=runs.kernel.processor_ns * (1 + runs.kernel.batch % 3))
    assert untrusted(replace(runs, kernel=scattered)) == OF_LINUX


def test_what_is_reported_is_the_median_of_the_repetitions():
    runs = made_up()
    disturbed = replace(runs, batches=disturb(runs.batches, "B100", 1.5))
    assert paper.summary(disturbed).ours_ns["B100"] == pytest.approx(4668)
    assert paper.summary(disturbed).drift["B100"] == pytest.approx(0.515, abs=1e-3)


def test_the_answer_speaks_of_the_settings_that_were_measured():
    said = paper.answer(replace(made_up(), delay_ms=200.0, rules=50))
    assert "delay of 200 ms" in said and "behind 50 rules" in said and "20 ms" not in said and "100 rules" not in said


@pytest.mark.parametrize(
    "case, verdict, rule",
    [
        ("B", "denied", 1),
        ("B50", "denied", 50),
        ("B100", "denied", 100),
        ("match before the others", "denied", 1),
        ("match half-way", "denied", 50),
        ("C0", "delivered", 1),
        ("Cd", "delivered", 1),
        ("Cr", "delivered", 1),
        ("Cd behind 10000 rules", "delivered", 10_001),
    ],
)
def test_every_case_ends_its_packets_where_the_table_says(case, verdict, rule):
    packets = Dummynet(paper.cases()[case].rules, tick_ms=1.0).run(synthetic_headers(500, 1.0)).packets
    assert set(packets.verdict) == {verdict} and set(packets.rule) == {rule}


def test_the_pipes_of_the_cases_delay_as_they_are_called():
    tested = paper.cases(delay_ms=20, bandwidth_mbps=600)
    out = {name: Dummynet(tested[name].rules).run(synthetic_headers(500, 1.0)).packets for name in ("C0", "Cd", "Cr")}
    waits = {name: (packets.departure_s - packets.time_s).to_numpy() for name, packets in out.items()}
    np.testing.assert_allclose(waits["C0"], 0, atol=1e-11)
    np.testing.assert_allclose(waits["Cd"], 20e-3, atol=1e-11)
    np.testing.assert_allclose(waits["Cr"], 46 * 8 / 600e6, atol=1e-11)  # 61 % of the rate: nobody waits


@pytest.fixture(scope="module")
def runs() -> paper.Runs:
    return paper.measure(5000, repetitions=2, seed=1)


def test_all_work_is_charged_where_it_is_done(runs):
    """What leaves at once leaves during arrivals; what is held leaves in the timer, and is not free."""
    for case in ("Cd", "Cr"):
        assert runs.medians("timer_ns")[case].min() > 0
    whole, parts = runs.medians(), runs.batches.arrivals_ns + runs.batches.timer_ns
    assert (runs.batches.whole_ns == parts).all() and set(paper.MAIN) < set(whole.columns)
    assert runs.out_of_order == 0 and runs.batches.groupby(["case", "repetition"]).batch.count().loc["A"].eq(5).all()


def test_deviations_are_the_cases_own_and_of_the_worst_of_the_six():
    runs = made_up()
    table = paper.deviation(runs.single)
    assert table.to_numpy() == pytest.approx(0.5)  # of 1, 2, 3 times a cost: 1 / 2
    loud = runs.batches.assign(
        whole_ns=runs.batches.whole_ns * np.where(runs.batches.case == "B", 1 + runs.batches.batch, 1)
    )
    assert verdicts(replace(runs, batches=loud))["steady-costs"].verdict == "untrusted"
    noisy = runs.batches.assign(whole_ns=runs.batches.whole_ns * np.where(runs.batches.batch == 0, 1.15, 1))
    assert verdicts(replace(runs, batches=noisy))["steady-costs"].verdict == "disagrees"


def test_packets_are_timed_one_by_one_too(runs):
    counts = runs.single.groupby(["case", "repetition"]).size()
    assert (counts == paper.SINGLE_PACKETS).all() and set(counts.index.get_level_values("case")) == set(paper.MAIN)


def test_without_namespaces_linux_is_not_measured_and_its_claim_is_left_out(runs):
    assert runs.kernel.empty and paper.summary(runs).linux_ns.isna().all()
    assert "linux-cost-per-rule" not in {each.claim for each in paper.measured_claims(runs)}


def test_every_figure_can_be_drawn(runs):
    for draw in (paper.draw_costs, paper.draw_ratios, paper.draw_batches, paper.draw_anomaly):
        for given in (runs, made_up()):
            assert draw(given).axes
    assert paper.draw_idea().axes
    assert paper.draw_rules(paper.vary_rules(2000, 1, counts=(1, 10))).axes
    assert paper.draw_delay(paper.vary_delay(2000, 1, delays_ms=(0, 1), ticks_ms=(1.0, 0.0))).axes


def test_settings_that_cannot_be_are_refused():
    for rules in (3, 7, 30_000):
        with pytest.raises(NetreproError, match="even number"):
            paper.cases(rules=rules)
    with pytest.raises(NetreproError, match="did you mean 'quick'"):
        paper.packets_a_case("quik")
