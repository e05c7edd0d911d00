"""Build what can be installed without a checkout: wheels and source archives of netrepro and of netrepro-kernel.

The kernel's wheel holds the kernel that is built here (x86-64), under the GPL: its source is put beside it. Run by
`make wheels` with the Python of .venv.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

LIBRARY = Path(__file__).resolve().parent
KERNEL = LIBRARY / "kernel"


def build_wheel(project: Path, into: Path, *settings: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    chosen = [word for setting in settings for word in ("--config-settings", setting)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *quiet, *chosen, "--wheel-dir", into, project], check=True)


def build_archive(project: Path, backend: str, into: Path) -> None:
    code = f"import sys; sys.path.insert(0, ''); import {backend} as backend; backend.build_sdist({str(into)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=project, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=LIBRARY / "dist", help="folder of what is built")
    parser.add_argument(
        "--without-source", action="store_true", help="the kernel's, for wheels that are not given away"
    )
    arguments = parser.parse_args()
    from netrepro.emulation.virtual import build
    from netrepro.emulation.virtual.kernel import kernel_path
    from netrepro.errors import NetreproError

    into = arguments.into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"  # cmake and ninja
    settings: list[str] = []
    try:
        kernel = kernel_path()
        if not kernel.parent.name.startswith(f"{build.REFERENCE}-"):
            raise NetreproError(f"{kernel} is not made of Linux {build.REFERENCE}", "remove it from the cache")
        settings = ["wheel.platlib=true", f"cmake.define.NETREPRO_BUILT={kernel.parent}"]
        if not arguments.without_source:
            shutil.copy2(build.reference(), into)
    except NetreproError as error:
        print(f"netrepro: the kernel's wheel has no kernel in it: {error.problem}; {error.remedy}", file=sys.stderr)
    build_wheel(KERNEL, into, *settings)
    build_archive(KERNEL, "scikit_build_core.build", into)
    build_wheel(LIBRARY, into)
    build_archive(LIBRARY, "build_with_data", into)
    for path in sorted(into.iterdir()):
        print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
