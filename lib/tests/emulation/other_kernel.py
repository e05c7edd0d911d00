"""Another kernel than this machine's, started in a virtual machine that sees this one's files and changes none."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from emulation_traffic import needs

VARIABLE = "NETREPRO_KERNEL"  # names a folder with boot/vmlinuz-* and lib/modules, as in a Debian package linux-image-*
TOOLS = ("qemu-system-x86_64", "busybox", "depmod", "modprobe")
# What the kernel needs to reach this machine's files.
_DRIVERS = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_FIRST = """#!/busybox sh
/busybox mkdir -p /proc /dev /files /changes /machine
/busybox mount -t devtmpfs dev /dev
for driver in {drivers}; do /busybox insmod /$driver.ko 2>/dev/null; done
/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro files /files
/busybox mount -t tmpfs changes /changes
/busybox mkdir /changes/upper /changes/work
/busybox mount -t overlay -o lowerdir=/files,upperdir=/changes/upper,workdir=/changes/work new /machine
/busybox mkdir -p /machine/lib/modules
/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro modules /machine/lib/modules
/busybox mount -t proc proc /machine/proc
/busybox mount -t sysfs sys /machine/sys
/busybox mount -t devtmpfs dev /machine/dev
/busybox mkdir -p /machine/dev/shm /machine/dev/pts
/busybox mount -t tmpfs shm /machine/dev/shm
/busybox mount -t devpts pts /machine/dev/pts
/busybox cp /then /machine/then
exec /busybox switch_root /machine /bin/sh /then
"""
_THEN = """export PATH={path} HOME=/root LANG=C.UTF-8
ip link set lo up
mount -t cgroup2 groups /sys/fs/cgroup
mkdir /sys/fs/cgroup/tests
echo $$ >/sys/fs/cgroup/tests/cgroup.procs
cd {folder}
{command}
echo "{ended} $?"
busybox poweroff -f
"""
_ENDED = "the command has ended with status"


def named_kernel() -> Path:
    """The folder of the kernel to try; skips the test where none is named, or nothing is there to start it with."""
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"no other kernel is named ({VARIABLE})")
    if os.getuid():
        pytest.skip("needs root")
    for tool in TOOLS:
        needs(tool)
    return Path(named)


def run_on(kernel: Path, command: list[str], folder: Path, timeout_s: float) -> tuple[int, str]:
    """Exit status and console of a command that runs in `folder` on that kernel, with two processors, emulated.

    Raises subprocess.TimeoutExpired, and RuntimeError with the console's end where the command did not come to its end.
    """
    (image,) = kernel.glob("boot/vmlinuz-*")
    version = image.name.removeprefix("vmlinuz-")
    if not (kernel / "lib/modules" / version / "modules.dep.bin").exists():
        subprocess.run(["depmod", "-b", kernel, version], check=True)
    shares = [("files", "/"), ("modules", str(kernel / "lib/modules"))]
    shared = [
        part
        for tag, path in shares
        for part in ("-virtfs", f"local,path={path},mount_tag={tag},security_model=none,readonly=on,multidevs=remap")
    ]
    first_files = kernel / "first-files"
    first_files.write_bytes(_archive(_first_files(kernel / "lib/modules" / version, command, folder)))
    machine = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "6144"]
    boot = ["-kernel", image, "-initrd", first_files, "-append", "console=ttyS0 quiet panic=1 mitigations=off"]
    said = subprocess.run(
        [*machine, "-nographic", "-no-reboot", "-net", "none", *boot, *shared],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
    ).stdout.decode(errors="replace")
    before, found, status = said.rpartition(_ENDED)
    if not found:
        raise RuntimeError(f"the other kernel did not come to the command's end: {said[-2000:]}")
    return int(status.split()[0]), before


def _first_files(modules: Path, command: list[str], folder: Path) -> dict[str, bytes]:
    """What the kernel starts from, path -> contents: a shell, drivers and two scripts."""
    drivers = _with_what_they_need(modules)
    then = _THEN.format(
        path=os.environ["PATH"], folder=shlex.quote(str(folder)), command=shlex.join(command), ended=_ENDED
    )
    return {
        "busybox": Path("/bin/busybox").read_bytes(),
        "init": _FIRST.format(drivers=" ".join(drivers)).encode(),
        "then": then.encode(),
        **{f"{name}.ko": path.read_bytes() for name, path in drivers.items()},
    }


def _with_what_they_need(modules: Path) -> dict[str, Path]:
    """The drivers that are not built in, name -> file, each after those that it depends on."""
    # A line a module: "path: paths", what is needed last first.
    lines = (line.split(":") for line in (modules / "modules.dep").read_text().splitlines())
    needed = {Path(path).stem: [path, *others.split()] for path, others in lines}
    paths = [path for name in _DRIVERS for path in reversed(needed.get(name, []))]
    return {Path(path).stem: modules / path for path in paths}


def _archive(files: dict[str, bytes]) -> bytes:
    """Executable files as the kernel unpacks them (cpio, "newc")."""
    parts = []
    for number, (name, contents) in enumerate([*files.items(), ("TRAILER!!!", b"")], start=1):
        fields = [number, 0o100755, 0, 0, 1, 0, len(contents), 0, 0, 0, 0, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08X" % each for each in fields) + name.encode() + b"\0"
        parts += [head, bytes(-len(head) % 4), contents, bytes(-len(contents) % 4)]
    return b"".join(parts)
