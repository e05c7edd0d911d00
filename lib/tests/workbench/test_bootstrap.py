"""The set-up that `make run` starts with, run for real in scratch folders, from a package index made here."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from uv import find_uv_bin

SOURCE = Path(__file__).resolve().parents[2] / "bootstrap.py"


def load_bootstrap():
    spec = importlib.util.spec_from_file_location("netrepro_bootstrap", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bootstrap():
    return load_bootstrap()


# What is missing is said in one line, and nothing is begun


@pytest.mark.parametrize("version", [(3, 10, 14), (3, 15, 0)])
def test_a_python_too_old_or_too_new_is_named(bootstrap, monkeypatch, version):
    monkeypatch.setattr(bootstrap, "sys", SimpleNamespace(version_info=(*version, "final", 0)))
    with pytest.raises(bootstrap.SetUpError) as caught:
        bootstrap.check_prerequisites()
    message = str(caught.value)
    assert ".".join(map(str, version)) in message and "3.11 to 3.14" in message and "PYTHON=" in message
    assert "\n" not in message


def test_an_older_python_can_read_the_script_and_so_say_that_it_is_too_old():
    ast.parse(SOURCE.read_text(), feature_version=(3, 7))


def set_up_without(folder: Path, prelude: str = "", **environment: str) -> subprocess.CompletedProcess:
    """Run a copy of the script under `folder` in a process whose environment is only what is given."""
    (folder / "lib").mkdir()
    script = str(shutil.copy(SOURCE, folder / "lib"))
    run = f"import runpy, sys; sys.argv = ['bootstrap.py']; runpy.run_path({script!r}, run_name='__main__')"
    program = f"{prelude}\n{run}"
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert result.returncode == 1
    assert not (folder / ".venv").exists()
    return result


def only_line(text: str) -> str:
    (line,) = text.strip().splitlines()
    return line


@pytest.mark.parametrize("named", [{}, {"CXX": "no-such-compiler -O2"}])
def test_a_machine_without_a_compiler_is_told_how_to_get_one(tmp_path, named):
    line = only_line(set_up_without(tmp_path, PATH=str(tmp_path), **named).stderr)
    assert line.startswith("netrepro: a C++20 compiler is needed") and "apt-get install g++" in line


@pytest.mark.parametrize("absent", ["venv", "ensurepip"])
def test_a_python_without_venv_is_told_the_package(tmp_path, absent):
    block = f"import sys; sys.modules[{absent!r}] = None"
    line = only_line(set_up_without(tmp_path, block, PATH=str(tmp_path), CXX=sys.executable).stderr)
    assert "apt-get install python3-venv" in line


def test_a_python_without_headers_is_told_the_package(tmp_path):
    block = f"import sysconfig; sysconfig.get_path = lambda name: {str(tmp_path)!r}"
    line = only_line(set_up_without(tmp_path, block, PATH=str(tmp_path), CXX=sys.executable).stderr)
    assert "apt-get install python3-dev" in line


# The steps, in one scratch environment


def make_wheel(folder: Path, name: str, version: str, requires: str = "", program: str = "") -> None:
    """A wheel with one module, at most one requirement, and, with `program`, a command of its name."""
    folder.mkdir(exist_ok=True)
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{module}/__init__.py", program)
        wheel.writestr(f"{info}/METADATA", metadata + (f"Requires-Dist: {requires}\n" if requires else ""))
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        if program:
            wheel.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name} = {module}:main\n")
        wheel.writestr(f"{info}/RECORD", "")


BACKEND = """
import zipfile
from pathlib import Path

def build_editable(folder, config_settings=None, metadata_directory=None):
    if "error" in Path("core/queue.cpp").read_text():
        raise SystemExit("queue.cpp:1: error: expected ';'")
    info, name = "netrepro-0.1.0.dist-info", "netrepro-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(Path(folder) / name, "w") as wheel:
        wheel.writestr("netrepro.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: netrepro\\nVersion: 0.1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


class Scratch:
    """A library and an index under one folder, the set-up pointed at them, and a count of what it starts."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch):
        self.patch, self.sources, self.index = patch, folder / "lib", folder / "index"
        (self.sources / "core").mkdir(parents=True)
        (self.sources / "core" / "queue.cpp").write_text("int answer = 1;\n")
        (self.sources / "CMakeLists.txt").write_text("")
        (self.sources / "backend.py").write_text(BACKEND)
        (self.sources / "pyproject.toml").write_text(PYPROJECT)
        make_wheel(self.index, "tiny", "1.0")
        make_wheel(self.index, "tiny", "2.0")
        # A uv that cannot reach the index, as behind a mirror that only pip is set up for.
        make_wheel(self.index, "uv", "1.0", program="def main():\n    raise SystemExit('unreachable')\n")
        self.lock("tiny==1.0", "uv==1.0 ; python_version < '4'")

        self.module = load_bootstrap()
        venv = folder / ".venv"
        names = {"LIBRARY": self.sources, "VENV": venv, "PYTHON": venv / "bin" / "python"}
        for name, value in {**names, "READY": venv / "netrepro-ready"}.items():
            patch.setattr(self.module, name, value)
        settings = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "CXX": sys.executable}
        for name, text in {**settings, "PIP_FIND_LINKS": str(self.index), "PATH": os.environ["PATH"]}.items():
            patch.setenv(name, text)
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        self.started: list[str] = []
        start = subprocess.run

        def counted(command, **options):
            self.started.append(" ".join(map(str, command)))
            return start(command, **options)

        patch.setattr(self.module, "subprocess", SimpleNamespace(run=counted))

    def lock(self, *pins: str, name: str = "requirements.txt") -> None:
        """Write a lock of these pins, as uv does: below each, the hashes of its files."""
        lines = []
        for pin in pins:
            package, _, version = pin.split()[0].partition("==")
            (wheel,) = self.index.glob(f"{package}-{version}-*.whl")
            lines.append(f"{pin} \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
        (self.sources / name).write_text("".join(lines))

    def set_up(self, *arguments: str) -> int:
        self.started.clear()
        self.patch.setattr(sys, "argv", ["bootstrap.py", *arguments])
        return self.module.main()

    def version(self, package: str) -> str | None:
        """The installed version, asked of the scratch environment's own folders."""
        found = list(self.module.VENV.glob(f"lib/python*/site-packages/{package}-*.dist-info"))
        return found[0].name.removeprefix(f"{package}-").removesuffix(".dist-info") if found else None

    def forget_torch(self) -> None:
        """Make the machine a fresh one: no PyTorch, no stamp, no wheel of it in the index."""
        packages = [name for name in ("torch", "nvidia_cuda_runtime") if self.version(name)]
        if packages:
            python = self.module.PYTHON
            subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", *packages], check=True)
        (self.module.VENV / "netrepro-torch").unlink(missing_ok=True)
        for wheel in [*self.index.glob("torch-*"), *self.index.glob("nvidia*")]:
            wheel.unlink()

    def offer_torch(self, *builds: str) -> None:
        for build in builds:
            if build == "cuda":
                make_wheel(self.index, "torch", "2.13.0", requires="nvidia-cuda-runtime")
                make_wheel(self.index, "nvidia-cuda-runtime", "13.0")
            else:
                make_wheel(self.index, "torch", "2.13.0+cpu")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        made = Scratch(tmp_path_factory.mktemp("set-up"), patch)
        made.offer_torch("cuda")
        assert made.set_up() == 0
        yield made


def test_the_set_up_installs_lock_and_library_even_where_uv_cannot(scratch):
    assert scratch.version("tiny") == "1.0"
    assert scratch.version("netrepro") == "0.1.0"
    assert scratch.module.READY.exists()


def test_a_first_figure_needs_few_packages_and_a_core_that_the_set_up_compiles_again(tmp_path, monkeypatch):
    scratch = Scratch(tmp_path, monkeypatch)
    make_wheel(scratch.index, "later", "1.0")
    scratch.lock("tiny==1.0", name="requirements-first.txt")
    scratch.lock("tiny==1.0", "uv==1.0", "later==1.0")
    assert scratch.set_up("--first") == 0
    assert (scratch.version("tiny"), scratch.version("later"), scratch.version("netrepro")) == ("1.0", None, "0.1.0")
    assert not scratch.module.READY.exists()
    assert scratch.set_up("--first") == 0 and scratch.started == []
    assert scratch.set_up() == 0
    assert scratch.version("later") == "1.0" and any("--editable" in command for command in scratch.started)
    assert scratch.set_up("--first") == 0 and scratch.started == []


def test_a_second_call_starts_nothing(scratch):
    assert scratch.set_up() == 0
    assert scratch.started == []


def test_a_changed_source_builds_only_the_library(scratch):
    (scratch.sources / "core" / "queue.cpp").write_text("int answer = 2;\n")
    assert scratch.set_up() == 0
    (command,) = scratch.started
    assert "--editable" in command


def test_a_failed_build_is_told_with_its_error_and_tried_again(scratch, capsys):
    (scratch.sources / "core" / "queue.cpp").write_text("error\n")
    assert scratch.set_up() == 1
    assert "expected ';'" in capsys.readouterr().err
    assert scratch.set_up() == 1, "a failed step must leave no stamp"
    (scratch.sources / "core" / "queue.cpp").write_text("int answer = 3;\n")
    assert scratch.set_up() == 0
    assert len(scratch.started) == 1


def test_modules_are_compiled_once_where_python_does_not_keep_what_it_compiles(scratch, monkeypatch):
    packages = scratch.sources / "netrepro"
    packages.mkdir()
    (packages / "queue.py").write_text("answer = 1")
    lock = scratch.sources / "requirements.txt"
    compiled = []
    for kept in (True, False):
        if not kept:
            monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        for file in (lock, scratch.sources / "core" / "queue.cpp"):
            file.write_text(file.read_text() + "\n")
        assert scratch.set_up() == 0
        compiled.append(
            [*scratch.module.VENV.glob("lib/python*/site-packages/tiny/**/*.pyc"), *packages.rglob("*.pyc")]
        )
    assert len(compiled[1]) == 2 and not [path for path in compiled[0] if path.is_relative_to(packages)]


def test_a_changed_lock_installs_only_the_packages(scratch):
    scratch.lock("tiny==2.0", "uv==1.0")
    assert scratch.set_up() == 0
    assert scratch.version("tiny") == "2.0"
    assert not any("--editable" in command or "torch" in command for command in scratch.started)


REAL_UV = f"import os, sys\ndef main():\n    os.execv({find_uv_bin()!r}, ['uv', *sys.argv[1:]])\n"


@pytest.mark.parametrize("arguments", [[], ["--first"]])
@pytest.mark.parametrize("program", ["def main():\n    raise SystemExit('unreachable')\n", REAL_UV])
def test_a_file_that_is_another_than_the_locks_is_not_installed(tmp_path, monkeypatch, capfd, program, arguments):
    """An index may hand out another file under the same name and version."""
    scratch = Scratch(tmp_path, monkeypatch)
    for name, value in {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(scratch.index), "UV_NO_CACHE": "1"}.items():
        monkeypatch.setenv(name, value)
    make_wheel(scratch.index, "uv", "1.0", program=program)
    scratch.lock("tiny==1.0", "uv==1.0")
    scratch.lock("tiny==1.0", name="requirements-first.txt")
    make_wheel(scratch.index, "tiny", "1.0", program="def main():\n    pass\n")
    assert scratch.set_up(*arguments) == 1
    said = capfd.readouterr().err
    assert "installing the packages failed" in said and "hash" in said.lower() and scratch.version("tiny") is None
    scratch.lock("tiny==1.0", "uv==1.0")
    scratch.lock("tiny==1.0", name="requirements-first.txt")
    assert scratch.set_up(*arguments) == 0 and scratch.version("tiny") == "1.0"
    assert any("--requirement" in command for command in scratch.started[1:]) == (program != REAL_UV)


@pytest.mark.parametrize(
    ("offered", "arguments", "installed", "cuda"),
    [
        (["cuda"], [], None, None),
        (["cuda"], ["--neural"], "2.13.0", "13.0"),
        (["cpu"], [], "2.13.0+cpu", None),
        (["cpu", "cuda"], [], "2.13.0+cpu", None),
        ([], [], None, None),
    ],
)
def test_the_cuda_build_comes_only_when_asked_for(scratch, capsys, offered, arguments, installed, cuda):
    scratch.forget_torch()
    scratch.offer_torch(*offered)
    assert scratch.set_up(*arguments) == 0
    assert (scratch.version("torch"), scratch.version("nvidia_cuda_runtime")) == (installed, cuda)
    output = capsys.readouterr().out
    assert ("NEURAL=1" in output) == (installed is None), "who gets none is told how to ask"


def test_who_asks_for_torch_where_there_is_none_is_told_so(scratch, capsys):
    scratch.forget_torch()
    assert scratch.set_up("--neural") == 1
    assert "PyTorch" in capsys.readouterr().err


def test_a_terminal_of_make_lab_finds_netrepro():
    """Programs that JupyterLab starts have the path that make gives it; a dry run says which."""
    root = Path(__file__).resolve().parents[3]
    told = subprocess.run(["make", "-n", "lab"], cwd=root, capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in told.splitlines() if "jupyter lab" in line)
    given = line.partition(" .venv/bin/jupyter")[0]
    seen = subprocess.run(
        ["sh", "-c", f'{given} sh -c "echo \\$PATH"'], capture_output=True, text=True, check=True
    ).stdout
    assert seen.split(":")[0] == str(root / ".venv" / "bin") and os.environ["PATH"] in seen
