"""The command line's application, and the options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from netrepro.errors import NetreproError
from netrepro.workbench.cli.console import print_lines

app = typer.Typer(
    help="Published network-systems results, run again.", no_args_is_help=True, pretty_exceptions_enable=False
)

Slugs = Annotated[list[str] | None, typer.Argument(metavar="[SLUG]...", help="notebooks; none: all of them")]
Profile = Annotated[str, typer.Option(help="quick, or paper (the published scale)")]
Tier = Annotated[str, typer.Option(help="auto, virtual, privileged, rootless or simulated")]
Parameters = Annotated[
    list[str] | None, typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="may be repeated")
]
Jobs = Annotated[int | None, typer.Option(help="notebooks at a time in the compute lane (default: one a core)")]
Scheduler = Annotated[str | None, typer.Option(help="address of a Dask scheduler, tcp://…")]
Resume = Annotated[
    bool, typer.Option("--resume", help="keep runs that ended well, if notebook, data, settings and code are unchanged")
]
Json = Annotated[bool, typer.Option("--json", help="as JSON, for programs")]
Patience = Annotated[float, typer.Option(help="a cell may take this many times the declared budget")]


def _say_version(asked: bool) -> None:
    if asked:
        from netrepro import __version__

        print_lines([f"netrepro {__version__}"])
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_say_version, is_eager=True, help="say it")] = False,
) -> None:
    """Published network-systems results, run again."""


def assignments(words: list[str] | None) -> dict[str, str]:
    """Read NAME=VALUE words of a command line. Raises NetreproError for another form, and for a name given twice."""
    given = {}
    for word in words or []:
        name, separator, value = word.partition("=")
        name = name.strip()
        if not separator or not name:
            raise NetreproError(f"-p {word}", "write -p name=value")
        if name in given:
            raise NetreproError(f"-p {name} is given twice", "give it once: netrepro sweep takes several values")
        given[name] = value
    return given
