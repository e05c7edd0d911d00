"""netrepro conform: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from command_line import command


def test_it_prints_a_line_a_sentence_and_ends_with_0_where_nothing_fails():
    done = command("conform", "reno", "--suite", "rfc", "--scenario", "one_loss", "--scenario", "blackout")
    assert done.returncode == 0, done.stderr
    assert "✓ halves-after-a-loss: 0.5" in done.stdout and "! timer-of-a-second" in done.stdout
    assert "reno on tier simulated: 11 pass, 0 fail, 1 departs, 2 not applicable" in done.stdout.replace("\n", " ")
    assert "the traces of 2 scenarios are the golden ones" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_it_ends_with_1_where_a_sentence_fails_and_where_strict_counts_departures():
    asked = ("conform", "reno", "--suite", "rfc", "--scenario")
    assert command(*asked, "cubic_growth", "--claims", "rfc9438").returncode == 1
    assert command(*asked, "blackout", "--strict").returncode == 1


def test_it_writes_json_and_junit(tmp_path):
    junit = tmp_path / "junit.xml"
    done = command("conform", "cubic", "--suite", "rfc", "--scenario", "lost_syn", "--json", "--junit", str(junit))
    (sentence,) = json.loads(done.stdout)["sentences"]
    (case,) = ElementTree.parse(junit).iter("testcase")
    assert sentence["id"] == case.get("name") and sentence["verdict"] == "pass"


def test_it_writes_a_page_with_pictures_and_traces_that_are_the_same_twice(tmp_path):
    pages = []
    for name in ("first", "second"):
        into = tmp_path / name
        done = command("conform", "cubic", "--suite", "rfc", "--scenario", "lost_tail", "--into", str(into))
        assert done.returncode == 0, done.stderr
        pages.append({path.relative_to(into): path.read_bytes() for path in into.rglob("*") if path.is_file()})
    assert pages[0] == pages[1]
    text = (into / "report.html").read_text()
    assert text.count("data:image/png;base64") == 1 and "A loss at the end of the data SHOULD be found" in text
    assert {"report.html", "report.json", "junit.xml"} <= {str(path) for path in pages[0]}
    assert any(str(path).endswith(".sqlog") for path in pages[0])


def test_what_is_no_control_is_refused_with_2():
    done = command("conform", "rena")
    assert done.returncode == 2 and "did you mean 'reno'" in done.stderr + done.stdout
