"""The commands that need no notebook: the virtual kernel, congestion controls, labelled traffic."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from netrepro.errors import NetreproError
from netrepro.workbench.cli.console import (
    COLUMNS,
    console,
    live_lines,
    print_json,
    print_lines,
    short,
)
from netrepro.workbench.cli.options import Json, app

kernel = typer.Typer(help="The kernel in virtual time: build it, say where it is, look inside.", no_args_is_help=True)
app.add_typer(kernel, name="kernel")


@kernel.command("build")
def build_kernel(
    jobs: Annotated[int | None, typer.Option(help="compilers at a time (default: one a core)")] = None,
    source: Annotated[
        Path | None, typer.Option(help="an archive, package or folder of Linux 6.12 (default: Debian's 6.12.117)")
    ] = None,
    quietly: Annotated[bool, typer.Option("--if-possible", help="say what is missing, and fail never")] = False,
) -> None:
    """Build the virtual kernel from the source of Linux into your cache, once, in minutes. It needs no root and fetches
    the tools that are missing."""
    from rich.progress import Progress

    from netrepro.emulation.virtual.build import build_kernel as build
    from netrepro.emulation.virtual.kernel import kernel_path

    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task, before = bar.add_task("the virtual kernel", total=1.0), ""

            def tell(what: str, share: float) -> None:
                nonlocal before
                if what != before and not console.is_terminal:
                    print_lines([f"  the virtual kernel: {what} ..."])
                before = what
                bar.update(task, description=what, completed=share)

            path = build(tell, source, jobs=jobs)
    except NetreproError as error:
        if not quietly:
            raise
        first, *lines = error.problem.splitlines()  # such as the compiler's
        print_lines([f"no virtual kernel: {first}; {error.remedy}", *(f"  {line}" for line in lines)])
        return
    print_lines([f"the virtual kernel: {path} ({path.stat().st_size / 1e6:.1f} MB)"])
    if path != kernel_path():
        print_lines([f"not what runs, as a newer one is there: {kernel_path()}"])


@kernel.command("path")
def show_kernel_path() -> None:
    """Print the path of the virtual kernel."""
    from netrepro.emulation.virtual.kernel import kernel_path

    typer.echo(kernel_path())


@kernel.command("shell")
def kernel_shell() -> None:
    """Run a shell in the virtual kernel, as its root; virtual time passes as commands sleep or wait for packets."""
    from netrepro.emulation.virtual.instance import run_shell

    raise typer.Exit(run_shell())


@app.command("conform")
def conform_control(
    subject: Annotated[
        str, typer.Argument(metavar="CONTROL", help='a control by name, "./program with words", program.py, module.c')
    ],
    suite: Annotated[
        list[str] | None, typer.Option(help="rfc, bbr, fairness or a YAML file; may be repeated (default: all three)")
    ] = None,
    scenario: Annotated[list[str] | None, typer.Option(help="only this scenario; may be repeated")] = None,
    claims: Annotated[
        str, typer.Option(help="what it claims, as rfc9438,paced (default: what is known of it, else rfc5681)")
    ] = "",
    tier: Annotated[str | None, typer.Option(help="simulated or virtual (default: by the kind of control)")] = None,
    into: Annotated[
        Path | None, typer.Option(help="write a page, pictures, traces (qlog), JSON and JUnit here")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="write JUnit XML here")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="count departures as failures")] = False,
    as_json: Json = False,
) -> None:
    """Test a congestion control against sentences of RFCs, the BBR draft's cases, and questions of fairness. Exit code
    1 where a sentence fails."""
    from netrepro.conformance import SUITES, conform
    from netrepro.files import write_atomically
    from netrepro.workbench.cli.conforming import report_lines, write_report

    named = [word.strip() for word in claims.split(",") if word.strip()]
    with live_lines(silent=True) if as_json else console.status("scenarios run ...") as status:

        def tell(name: str) -> None:
            if not as_json:
                status.update(f"{name} has run ...")  # type: ignore[union-attr]

        report = conform(
            subject,
            suite or SUITES,
            scenarios=scenario or (),
            claims=named,
            tier=tier,
            references=into is not None,
            progress=tell,
        )
    if junit:
        write_atomically(junit, report.to_junit())
    page = write_report(report, into) if into else None
    if as_json:
        typer.echo(report.to_json(), nl=False)
    else:
        print_lines(report_lines(report))
        print_lines([f"with pictures: {short(page)}"] if page else [])
    raise typer.Exit(int(not report.holds(strict=strict)))


@app.command()
def capture(
    into: Annotated[Path, typer.Option(help="folder for the captures, the flows and the log")],
    seconds: Annotated[float, typer.Option(help="how long each day is")] = 240.0,
    scale: Annotated[float, typer.Option(help="times about 5,000 flows a day")] = 1.0,
    days: Annotated[int, typer.Option(help="runs, each on a day of its own")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="of who does what when")] = 1,
) -> None:
    """Make a labelled capture of real applications in virtual time, as data/gmm_traffic/standin. By default this takes
    a processor ten minutes or more."""
    from tqdm import tqdm

    from netrepro.applications.labelled_traffic import check_capture, make_capture

    check_capture(seconds, scale, days)
    cost = f"{days} x {seconds:g} s of traffic in virtual time, about {scale * 5000 * days:,.0f} flows"
    waits = "a minute to start each, and a processor's second or more each second"
    print_lines([f"{cost}: {waits}"])
    made = make_capture(into, seconds=seconds, scale=scale, days=days, seed=seed, progress=partial(tqdm, disable=None))
    print_lines([made.to_string(line_width=COLUMNS)])


@app.command()
def audit(
    path: Annotated[Path, typer.Argument(help="a CSV of flows, Zeek's conn.log, labelled captures, or a folder")],
    label: Annotated[str | None, typer.Option(help="column of labels, or folder or file for their names")] = None,
    unit: Annotated[str, typer.Option(help="of captures: flow or packet [auto: packet]")] = "auto",
    capture: Annotated[
        list[Path] | None, typer.Option(help="what a table was made of, to compare with; may be repeated")
    ] = None,
    sample: Annotated[int, typer.Option(help="rows that train and test forests; other checks see all")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="of splits and forests")] = 0,
    into: Annotated[
        Path | None, typer.Option(help="folder for picture and tables (default: below runs/audit/)")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="fail if anything is found")] = False,
    as_json: Json = False,
) -> None:
    """Audit labelled traffic: can a classifier's score on it be believed? A table, a picture, a sentence a finding."""
    from netrepro.workbench.cli.auditing import audit_lines, audit_path, write_audit

    done = audit_path(path, label=label, unit=unit, captures=capture or [], sample=sample, seed=seed)
    folder = write_audit(done, path, into)
    if as_json:
        print_json(done.content() | {"folder": str(folder)})
    else:
        print_lines(audit_lines(done))
        print_lines(["", f"picture and tables: {short(folder)}/audit.png, checks.csv, scores.csv, columns.csv"])
    raise typer.Exit(int(check and not done.passed))
