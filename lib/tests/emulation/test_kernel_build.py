"""The build of the virtual kernel: what it lacks is fetched without root, and what cannot be had is said in a line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from netrepro.emulation.virtual import build
from netrepro.emulation.virtual.build import build_kernel
from netrepro.emulation.virtual.packages import can_fetch, fetch_package, fetch_programs
from netrepro.emulation.virtual.probe import try_virtual
from netrepro.errors import NetreproError
from netrepro.files import file_sha256

needs_apt = pytest.mark.skipif(not can_fetch(), reason="needs apt")


def test_without_a_kernel_one_line_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    works, why = try_virtual()
    assert not works and "kernel build" in why
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NetreproError, match=r"gcc and make, which builds it, is missing"):
        build_kernel()
    for program in ("gcc", "make"):
        (tmp_path / program).symlink_to("/bin/true")
    with pytest.raises(NetreproError, match=r"flex, bison, bc, patch, xz is missing, and there is no apt"):
        build_kernel()
    netrepro = [sys.executable, "-m", "netrepro.workbench.cli.commands", "kernel", "build", "--if-possible"]
    told = subprocess.run(netrepro, capture_output=True, text=True, check=True).stdout.split()
    assert " ".join(told).startswith("no virtual kernel: flex, bison, bc, patch, xz is missing")


@needs_apt
def test_what_a_build_lacks_is_fetched_by_apt_with_what_it_depends_on(monkeypatch, tmp_path):
    """From a list of packages of our own, since apt is asked for no more than a user may."""
    script = '#!/bin/sh\necho $LD_LIBRARY_PATH; cat "$(dirname "$0")/words"\n'
    contents = {
        "letters": ("Depends: words\n", {"usr/bin/letters": script}),
        "words": ("", {"usr/bin/words": "abc\n", "usr/lib/x86_64-linux-gnu/libwords.so": ""}),
    }
    store = tmp_path / "store"
    store.mkdir()
    for name, (needs, files) in contents.items():
        for path, text in files.items():
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: test\nDescription: test\n{needs}"
        (tmp_path / name / "DEBIAN").mkdir()
        (tmp_path / name / "DEBIAN" / "control").write_text(control)
        package = store / f"{name}_1_all.deb"
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tmp_path / name, package], check=True)
        with (store / "Packages").open("a") as index:
            index.write(
                f"{control}Filename: ./{package.name}\n"
                f"Size: {package.stat().st_size}\nSHA256: {file_sha256(package)}\n\n"
            )
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] copy:{store} ./\n")
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{tmp_path}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    tools = tmp_path / "my cache" / "tools"
    fetch_programs({"letters": "letters"}, tools)
    said = subprocess.check_output(["letters"], env={"PATH": f"{tools / 'bin'}:/usr/bin:/bin"}, text=True)
    assert said == f"{tools}/files/usr/lib/x86_64-linux-gnu\nabc\n"
    assert list(tools.parent.iterdir()) == [tools], "nothing else is left"
    with pytest.raises(NetreproError, match=r"apt cannot fetch nobody \(Unable to locate package nobody\)"):
        fetch_programs({"nobody": "nobody"}, tmp_path / "others")


@needs_apt
def test_a_source_with_another_hash_is_not_taken(monkeypatch, tmp_path):
    given = tmp_path / "given.deb"
    given.write_bytes(b"something else")
    nowhere = f'Dir::Etc::sourcelist "{tmp_path}/none";\nDir::Etc::sourceparts "/dev/null";\n'
    (tmp_path / "apt.conf").write_text(nowhere)
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    kept = tmp_path / "kept" / "source.deb"
    with pytest.raises(NetreproError, match="linux 1 cannot be fetched"):
        fetch_package("linux", "1", [given.as_uri()], "0" * 64, kept)
    assert not kept.exists()
    fetch_package("linux", "1", ["file:/nowhere.deb", given.as_uri()], file_sha256(given), kept)
    assert kept.read_bytes() == given.read_bytes()


def source_of_linux(folder: Path, version: str) -> Path:
    """Make the few files by which a folder is taken for Linux's source."""
    (folder / "arch" / "um").mkdir(parents=True)
    (folder / "arch" / "um" / "Kconfig").touch()
    names = zip(("VERSION", "PATCHLEVEL", "SUBLEVEL"), version.split("."), strict=True)
    (folder / "Makefile").write_text("".join(f"{name} = {number}\n" for name, number in names))
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_a_source_that_no_patch_is_written_for_is_refused(packed, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "_with_tools", lambda tell: dict(os.environ))
    cases = {"6.1.3": "is Linux 6.1.3\n.*Linux 6.12", "6.13.0": "is Linux 6.13.0"}
    if shutil.which("patch"):
        cases["6.12.1"] = r"calls\.patch does not fit Linux 6.12.1"
    for version, said in cases.items():
        given = source_of_linux(tmp_path / f"linux-{version}", version)
        if packed:
            given = Path(shutil.make_archive(str(given), "gztar", tmp_path, given.name))
        with pytest.raises(NetreproError, match=said):
            build_kernel(source=given)
    (tmp_path / "empty").mkdir()
    for wrong, said in ((tmp_path / "empty", "holds no source"), (tmp_path / "nothing", "not there")):
        with pytest.raises(NetreproError, match=said):
            build_kernel(source=wrong)
    assert not list((tmp_path / "cache").rglob("build-*"))


def test_the_next_build_removes_what_a_killed_one_has_left_and_what_its_programs_still_write(monkeypatch, tmp_path):
    """The tar that a killed build has started goes on for a second, and makes its folder anew."""
    cache = tmp_path / "cache" / "netrepro" / "kernel"
    for name in ("build-old/tree/deep", "apt-old", "sources/apt-old", "6.12.1-0123456789ab"):
        (cache / name).mkdir(parents=True)
    tar = tmp_path / "bin" / "tar"
    tar.parent.mkdir()
    tar.write_text(f'#!/bin/sh\necho "$PWD" > {tmp_path}/started\nsleep 1\nmkdir -p "$PWD/late"\n')
    tar.chmod(0o755)
    given = source_of_linux(tmp_path / "given", "6.1.3")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    call = "import os\nfrom netrepro.emulation.virtual import build\nbuild._with_tools = lambda tell: dict(os.environ)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{call}\nbuild.build_kernel(source={str(given)!r})"],
        env=os.environ | {"PATH": f"{tar.parent}:{os.environ['PATH']}"},
    ) as killed:
        while not (tmp_path / "started").exists():
            assert killed.poll() is None
            time.sleep(0.01)
        killed.kill()
    left = Path((tmp_path / "started").read_text().strip())
    assert left.is_dir() and not any(cache.glob("build-old")), "it has left a folder, and removed the one before"
    monkeypatch.setattr(build, "_with_tools", lambda tell: dict(os.environ))
    with pytest.raises(NetreproError, match=r"is Linux 6\.1\.3"):
        build_kernel(source=given)
    assert sorted(path.name for path in cache.iterdir()) == ["6.12.1-0123456789ab", "lock", "sources"]
    assert not any((cache / "sources").iterdir())
