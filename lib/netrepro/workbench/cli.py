"""The command line: a thin mirror of functions that a notebook can call."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from netrepro.errors import NetreproError

if TYPE_CHECKING:
    from netrepro.workbench.runner import Event, RunReport

app = typer.Typer(
    help="Published network-systems results, run again.", no_args_is_help=True, pretty_exceptions_enable=False
)
console = Console()

Slugs = Annotated[list[str] | None, typer.Argument(metavar="[SLUG]...", help="notebooks; none: all of them")]
Profile = Annotated[str, typer.Option(help="quick, or paper (the published scale)")]
Tier = Annotated[str, typer.Option(help="auto, virtual, privileged, rootless or simulated")]
Parameters = Annotated[
    list[str] | None, typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="may be repeated")
]
Jobs = Annotated[int | None, typer.Option(help="notebooks at a time in the compute lane [default: one a core]")]
Scheduler = Annotated[str | None, typer.Option(help="address of a Dask scheduler, tcp://…")]
Resume = Annotated[bool, typer.Option("--resume", help="keep runs that ended well and whose inputs are unchanged")]
Patience = Annotated[float, typer.Option(help="a cell may take this many times the declared budget")]


@app.command()
def run(
    slugs: Slugs = None,
    profile: Profile = "quick",
    tier: Tier = "auto",
    parameter: Parameters = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    resume: Resume = False,
    patience: Patience = 3.0,
) -> None:
    """Execute notebooks headlessly; end with the scorecard."""
    given = _assignments(parameter)
    if given:
        _check_early(slugs, given)
    from netrepro.workbench.runner import run as run_notebooks

    with _told() as told:
        report = run_notebooks(
            slugs,
            profile=profile,
            tier=tier,
            parameters=given,
            jobs=jobs,
            scheduler=scheduler,
            resume=resume,
            patience=patience,
            on_event=told,
        )
    code = report.exit_code
    if not given:
        try:
            _print_scorecard()
        except NetreproError as error:  # a malformed claims.yaml must not hide how the notebooks ended
            console.print(f"no scorecard: {error}", style="red", markup=False, soft_wrap=True)
            code = code or 1
    _print_failures(report)  # after the scorecard, which is long
    ended = {outcome: sum(status.outcome == outcome for status in report.statuses) for outcome in _outcomes(report)}
    console.print(", ".join(f"{count} {outcome}" for outcome, count in ended.items()) or "nothing to run")
    raise typer.Exit(code)


@app.command("list")
def list_notebooks() -> None:
    """Name every notebook, its lane, tiers and declared cost."""
    from netrepro.workbench.catalogue import catalogue

    table = Table("slug", "question", "lane", "tiers", "quick", "paper", box=None)
    for notebook in catalogue():
        declared = notebook.declaration
        cost = [f"{declared.budget_s[name]:.0f} s" for name in ("quick", "paper")]
        title = notebook.title if not notebook.problem else f"[red]{notebook.problem}[/red]"
        table.add_row(notebook.slug, title, declared.lane, ", ".join(declared.tiers), *cost)
    console.print(table)


@app.command()
def show(slug: str) -> None:
    """Show a notebook's parameters with types, defaults and help, and what it costs."""
    from netrepro.workbench.catalogue import find

    notebook = find(slug)
    if notebook.problem:
        raise NetreproError(notebook.problem)
    declared = notebook.declaration
    console.print(f"[bold]{notebook.title}[/bold]  ({notebook.path.name})")
    for profile in ("quick", "paper"):
        console.print(f"  {profile}: {declared.budget_s[profile]:.0f} s, {declared.memory_mb[profile]} MB")
    table = Table("parameter", "type", "default", "help", box=None)
    for item in notebook.parameters.values():
        table.add_row(item.name, item.type, repr(item.default), item.help)
    console.print(table)


@app.command()
def sweep(
    slug: str,
    vary: Annotated[str, typer.Option(metavar="NAME=A..B", help="NAME=A..B, or NAME=A,B,C")],
    points: Annotated[int, typer.Option(help="how many values of a range")] = 9,
    profile: Profile = "quick",
    tier: Tier = "auto",
    parameter: Parameters = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    resume: Resume = False,
) -> None:
    """Run a notebook over values of one parameter; a table and a figure land under runs/sweeps/."""
    from netrepro.workbench.sweep import sweep as run_sweep

    with _told() as told:
        done = run_sweep(
            slug,
            vary,
            points=points,
            profile=profile,
            tier=tier,
            parameters=_assignments(parameter),
            jobs=jobs,
            scheduler=scheduler,
            resume=resume,
            on_event=told,
        )
    _print_failures(done.report)
    name = vary.partition("=")[0]
    console.print(done.table.dropna(subset=["value"]).pivot_table(index="claim", columns=name, values="value"))
    console.print(f"table and figure: {_short(done.folder)}/sweep.csv, sweep.png")
    raise typer.Exit(done.report.exit_code)


kernel = typer.Typer(help="The kernel in virtual time: build it, say where it is, look inside.", no_args_is_help=True)
app.add_typer(kernel, name="kernel")


@kernel.command("build")
def build_kernel(
    jobs: Annotated[int | None, typer.Option(help="compilers at a time [default: one a core]")] = None,
    quietly: Annotated[
        bool, typer.Option("--if-possible", help="say in one line what is missing, and fail never")
    ] = False,
) -> None:
    """Build it from the distribution's source package into your cache; minutes, once."""
    from rich.progress import Progress

    from netrepro.emulation.virtual.kernel import build_kernel as build

    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task, before = bar.add_task("the virtual kernel", total=1.0), ""

            def tell(what: str, share: float) -> None:
                nonlocal before
                if what != before and not console.is_terminal:
                    console.print(f"  the virtual kernel: {what} ...", markup=False, soft_wrap=True)
                before = what
                bar.update(task, description=what, completed=share)

            path = build(tell, jobs=jobs)
    except NetreproError as error:
        if not quietly:
            raise
        console.print(
            f"no virtual kernel: {error.remedy or error.problem}".splitlines()[0], markup=False, soft_wrap=True
        )
        return
    console.print(f"the virtual kernel: {path} ({path.stat().st_size / 1e6:.1f} MB)", soft_wrap=True)


@kernel.command("path")
def show_kernel_path() -> None:
    """Print where it is."""
    from netrepro.emulation.virtual.kernel import kernel_path

    typer.echo(kernel_path())


@kernel.command("shell")
def kernel_shell() -> None:
    """Run a shell inside it, as its root; virtual time passes as commands sleep or wait for packets."""
    from netrepro.emulation.virtual.instance import run_shell

    raise typer.Exit(run_shell())


@app.command()
def doctor() -> None:
    """Say what this machine can do, and what each notebook would use."""
    from netrepro.workbench.doctor import examine

    examine().render(console)


@app.command()
def capture(
    into: Annotated[Path, typer.Option(help="folder for the captures, the flows and the log")],
    seconds: Annotated[float, typer.Option(help="how long each day is")] = 240.0,
    scale: Annotated[float, typer.Option(help="times about 5,000 flows a day")] = 1.0,
    days: Annotated[int, typer.Option(help="runs, each on a day of its own")] = 2,
    seed: Annotated[int, typer.Option(help="of who does what when")] = 1,
    tier: Annotated[str, typer.Option(help="auto, privileged or rootless")] = "auto",
) -> None:
    """Make a labelled capture of real applications, as data/gmm_traffic/standin."""
    from tqdm import tqdm

    from netrepro.emulation.labelled_traffic import make_capture

    made = make_capture(into, seconds=seconds, scale=scale, days=days, seed=seed, tier=tier, progress=tqdm)
    console.print(made.to_string())


@app.command()
def scorecard(
    check: Annotated[bool, typer.Option("--check", help="fail if a committed verdict no longer holds")] = False,
    into: Annotated[Path | None, typer.Option(help="write scorecard.csv, .md, .html and .png to this folder")] = None,
    readme: Annotated[
        bool, typer.Option("--readme", help="refresh figures/scorecard.* and the README's excerpt")
    ] = False,
) -> None:
    """Compare every published number with ours."""
    from netrepro.claims.scorecard import scorecard as build
    from netrepro.paths import workbench_root
    from netrepro.workbench.publish import lost_verdicts, refresh_readme, write_scorecard

    _print_scorecard()
    for folder in [into, workbench_root() / "figures" if readme else None]:
        if folder is not None:
            write_scorecard(build(), folder)
            console.print(f"written: {_short(folder)}/scorecard.csv, .md, .html, .png")
    if readme:
        refresh_readme(build(), workbench_root() / "README.md")
    if check:
        lost, notes = lost_verdicts()
        for line in notes:
            console.print(f"[dim]{line}[/dim]")
        for line in lost:
            console.print(f"[red]{line}[/red]")
        console.print("every committed verdict still holds" if not lost else f"{len(lost)} verdicts no longer hold")
        raise typer.Exit(int(bool(lost)))


def _assignments(words: list[str] | None) -> dict[str, str]:
    given = {}
    for word in words or []:
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise NetreproError(f"-p {word}", "write -p name=value")
        given[name.strip()] = value
    return given


def _check_early(slugs: list[str] | None, given: dict[str, str]) -> None:
    """Answer a mistyped parameter before anything heavy is imported."""
    from netrepro.workbench.catalogue import select
    from netrepro.workbench.parameters import check_parameters

    for notebook in select(slugs):
        if not notebook.problem:
            check_parameters(notebook.parameters, given, notebook.slug)


class _Lines:
    """One line a notebook: on a terminal a live line while it runs; in a log one line when it has ended."""

    def __init__(self, live: Live | None):
        self.live = live
        self.running: dict[str, Event] = {}

    def __call__(self, event: Event) -> None:
        if event.kind == "skipped":
            console.print(f"[yellow]skipped[/yellow]  {event.name}: {event.reason}")
        elif event.kind == "ended" and event.status is not None:
            self.running.pop(event.name, None)
            status = event.status
            colour = "green" if status.ok else "red"
            notes = [" (kept from an earlier run)"] if status.reused else []
            notes += [f", over its budget of {status.budget_s:.0f} s"] if status.over_budget else []
            spent = f"{status.seconds:.0f} s of {status.budget_s:.0f} s"
            console.print(
                f"[{colour}]{status.outcome:<12}[/{colour}] {event.name:<32} {spent}{''.join(notes)}", soft_wrap=True
            )
        else:
            self.running[event.name] = event
        if self.live is not None:
            self.live.update(self._table())

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for _ in range(5):
            table.add_column(no_wrap=True, overflow="ellipsis")
        for event in self.running.values():
            progress = event.progress
            cells = f"{progress.cell}/{progress.cells}" if progress and progress.cells else ""
            spent = f"{event.elapsed_s:.0f} s of {event.budget_s:.0f} s"
            table.add_row("[cyan]running[/cyan]", event.name, spent, cells, progress.heading if progress else "")
        return table


@contextmanager
def _told() -> Any:
    if not console.is_terminal:
        yield _Lines(None)
        return
    with Live(console=console, refresh_per_second=5, transient=True) as live:
        yield _Lines(live)


def _outcomes(report: RunReport) -> list[str]:
    return sorted({status.outcome for status in report.statuses}, key=lambda outcome: (outcome != "ok", outcome))


def _print_failures(report: RunReport) -> None:
    for status in report.statuses:
        if not status.ok:
            console.print(status.explanation(), style="red", markup=False, highlight=False, soft_wrap=True)


def _print_scorecard() -> None:
    from netrepro.claims.scorecard import BADGES, paper_summary, scorecard

    summary = paper_summary(scorecard())
    if summary.empty:
        return
    table = Table("paper", "level", "agrees", "in direction", "disagrees", "untrusted", "not measured", box=None)
    for row in summary.to_dict("records"):
        counts = ("agrees", "agrees in direction", "disagrees", "untrusted", "not measured")
        table.add_row(row["paper"], f"{BADGES[row['level']]} {row['level']}", *(str(row[name]) for name in counts))
    console.print(table)


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def main() -> None:
    """Entry point: a NetreproError becomes two lines and exit code 2, a Ctrl-C exit code 130."""
    try:
        app()
    except NetreproError as error:
        console.print(f"netrepro: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
