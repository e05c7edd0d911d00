"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from netrepro.files import left_behind, replace_folder, whole_file, write_atomically


def test_a_file_half_written_leaves_the_old_one_and_nothing_beside_it(tmp_path: Path):
    write_atomically(tmp_path / "table.csv", "old")
    with pytest.raises(RuntimeError), whole_file(tmp_path / "table.csv") as partial:
        partial.write_text("ne")
        raise RuntimeError
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("table.csv", "old")]


def test_two_who_write_one_file_at_once_do_not_meet(tmp_path: Path):
    with whole_file(tmp_path / "figure.svg") as first, whole_file(tmp_path / "figure.svg") as second:
        first.write_text("first")
        second.write_text("second")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("figure.svg", "first")]


def test_a_folder_takes_the_name_of_another_which_goes(tmp_path: Path):
    for name in ("new", "final"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "text").write_text(name)
    replace_folder(tmp_path / "new", tmp_path / "final", tmp_path / "aside")
    assert [path.name for path in tmp_path.iterdir()] == ["final"]
    assert (tmp_path / "final" / "text").read_text() == "new"


@pytest.mark.parametrize("is_link", [False, True])
def test_a_folder_takes_the_name_of_a_file_or_a_link_of_which_nothing_is_left(tmp_path: Path, is_link: bool):
    (tmp_path / "new").mkdir()
    (tmp_path / "elsewhere").mkdir()
    if is_link:
        (tmp_path / "final").symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / "final").write_text("no folder")
    replace_folder(tmp_path / "new", tmp_path / "final", tmp_path / "aside")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "final"]
    assert (tmp_path / "final").is_dir() and not (tmp_path / "final").is_symlink()


def test_a_folder_that_cannot_be_replaced_stays(tmp_path: Path):
    (tmp_path / "final").mkdir()
    with pytest.raises(FileNotFoundError):
        replace_folder(tmp_path / "missing", tmp_path / "final", tmp_path / "aside")
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_a_lock_goes_with_its_holder(tmp_path: Path):
    lock = tmp_path / "lock"
    code = "import sys, time, pathlib; from netrepro.files import held\nwith held(pathlib.Path(sys.argv[1])):\n"
    code += "    print('held', flush=True); time.sleep(600)"
    holder = subprocess.Popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE)
    assert holder.stdout and holder.stdout.readline() == b"held\n"
    with left_behind(lock) as nobody_holds_it:
        assert not nobody_holds_it
    holder.kill()
    holder.wait()
    with left_behind(lock) as nobody_holds_it:
        assert nobody_holds_it
    assert not lock.exists()
