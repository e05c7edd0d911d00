"""What a run's folder that somebody handed over may hold, and must not get out of its reader's files."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from deep_folders import make_deep

from netrepro.errors import NetreproError
from netrepro.workbench import compare, export
from netrepro.workbench.publishing.redraw import redraw
from netrepro.workbench.publishing.results import publish
from netrepro.workbench.running.run_folder import own_results, read_kept, standard_runs, strange_entries

NOTEBOOK = Path(__file__).parents[3] / "notebooks/14_dctcp.ipynb"
KEY = "-----BEGIN PRIVATE KEY----- of whoever reads the run"


@pytest.fixture
def key(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("home") / "id_ed25519"
    path.write_text(KEY)
    return path


PLACES = ["fig1_load.png", "more.png", "results.json", "status.json", "executed.ipynb", "tables/table.csv", "a/b/c"]


def put_link(folder: Path, place: str, target: Path) -> None:
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("place", PLACES)
def test_a_link_in_a_run_shows_its_reader_nothing_and_takes_nothing_along(place, good_echo, key, workbench):
    put_link(good_echo, place, key)
    kept = read_kept(good_echo)
    assert not kept.good and kept.result is None and place in kept.problem
    with pytest.raises(NetreproError, match="which is neither a file nor a readable folder"):
        compare("10_echo", "10_echo")
    for kind in ("codecheck", "ro-crate"):
        with pytest.raises(NetreproError):
            export("echo", kind, run=good_echo, into=workbench / "out")
        with pytest.raises(NetreproError, match="no run of echo ended well"):
            export("echo", kind, into=workbench / "out")
    assert standard_runs("echo") == [] and own_results("echo") is None
    (item,) = publish(run=good_echo, dirty=True)
    assert item.refusals
    coded = base64.b64encode(KEY.encode()).decode()
    for path in workbench.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert KEY not in path.read_text(errors="replace") and coded not in path.read_text(errors="replace")


def test_figures_are_not_drawn_again_from_links_or_through_them(key, workbench):
    shutil.copy(NOTEBOOK, workbench / "notebooks")
    folder = workbench / "runs/quick/14_dctcp"
    put_link(folder, "tables/values.csv", key)
    (folder / "tables/run.json").write_text('{"slug": "dctcp"}')
    with pytest.raises(NetreproError, match=r"is not read: it holds 'tables/values.csv'"):
        redraw("dctcp", folder)
    os.mkfifo(folder / "pipe")  # whoever opens it waits for ever
    with pytest.raises(NetreproError, match="no run of dctcp has left tables"):
        redraw("dctcp")
    assert key.read_text() == KEY


def test_links_to_folders_and_pipes_are_noticed_too(good_echo, key):
    (good_echo / "tables").mkdir(exist_ok=True)
    (good_echo / "tables/home").symlink_to(key.parent)
    os.mkfifo(good_echo / "pipe.png")  # whoever opens it waits for ever
    assert strange_entries(good_echo) == ["pipe.png", "tables/home"]
    assert not read_kept(good_echo).good


def test_a_run_as_the_runner_leaves_it_is_read(good_echo):
    assert strange_entries(good_echo) == [] and read_kept(good_echo).good


def test_a_very_deep_run_is_refused_in_a_sentence(good_echo):
    make_deep(good_echo, 3000)
    try:
        assert "which is neither a file nor a readable folder" in read_kept(good_echo).problem
    finally:
        subprocess.run(["rm", "-r", good_echo / "deep"], check=True)  # pytest's own way of removing it recurses
