"""The commands for those who write a paper, and for a class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netrepro.errors import NetreproError
from netrepro.workbench.cli.console import (
    columns_of,
    folded,
    live_lines,
    print_json,
    print_lines,
    records,
    short,
)
from netrepro.workbench.cli.options import Jobs, Json, Slugs, app


@app.command()
def new(
    slug: Annotated[str, typer.Argument(help="small letters, digits and _, such as red_queue")],
    number: Annotated[int | None, typer.Option(help="of the notebook's file (default: a free one from 70 on)")] = None,
) -> None:
    """Begin a paper: write a module, claims, a notebook and a test, which run and which you then fill in."""
    from netrepro.workbench.catalogue.skeleton import new_paper

    made = new_paper(slug, number)
    print_lines(["written, with an invented claim to replace:", *(f"  {short(path)}" for path in made)])
    print_lines([f"it runs: netrepro run {slug}; while you write: netrepro check {slug}"])
    print_lines([f"its test: pytest {short(made[3])}"])


@app.command("check")
def check_papers(
    slugs: Annotated[list[str], typer.Argument(metavar="SLUG...", help="papers that you write")],
    as_json: Json = False,
) -> None:
    """Check a paper that you write, in half a minute: its files fit together, each case runs, figures draw. Exit code 1
    where something does not."""
    from netrepro.workbench.catalogue.checking import Checked, check_paper
    from netrepro.workbench.catalogue.notebooks import find

    def tell(checked: Checked) -> None:
        word, colour = ("wrong", "red") if checked.problems else ("ok   ", "green")
        print_lines([f"{word}  {checked.name}"], colour)
        print_lines([f"       {line}" for problem in checked.problems for line in problem.splitlines()])

    done = {find(slug).slug: check_paper(slug, (lambda checked: None) if as_json else tell) for slug in slugs}
    if as_json:
        print_json({slug: {each.name: each.problems for each in checks} for slug, checks in done.items()})
    raise typer.Exit(int(any(each.problems for checks in done.values() for each in checks)))


@app.command()
def exercises(
    slugs: Slugs = None,
    into: Annotated[Path | None, typer.Option(help="write class copies, without solutions, to this folder")] = None,
    form: Annotated[
        str, typer.Option("--format", help="of the copies: netrepro; the instructor's for nbgrader or otter")
    ] = "netrepro",
    grade: Annotated[Path | None, typer.Option(help="execute and grade what students handed in there")] = None,
    trust: Annotated[bool, typer.Option(help="grade with your own rights, and not in a sandbox")] = False,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """List the notebooks' exercises; write copies for a class; grade what students hand in."""
    if into is not None and grade is not None:
        raise NetreproError("--into and --grade", "give one of them")
    if into is None and form != "netrepro":
        raise NetreproError(f"--format {form} without --into", "name the folder to write copies to: --into FOLDER")
    if into is not None:
        from netrepro.workbench.classroom.class_formats import write_class_copies

        made = write_class_copies(into, slugs, form)
        what = "without solutions" if form == "netrepro" else f"with solutions and hidden tests, for {form}"
        print_lines([f"{len(made)} notebook{'s' if len(made) != 1 else ''} {what}: {short(into)}/"])
    elif grade is not None:
        if slugs:
            raise NetreproError("--grade takes no notebooks", "each file says which notebook it is a copy of")
        from netrepro.workbench.classroom.grading import GRADED, RESULTS, STUDENTS, by_student
        from netrepro.workbench.classroom.grading import grade as grade_folder

        kept: list[tuple[Path, Path]] = []
        with live_lines() as tell:
            table = grade_folder(
                grade, jobs=jobs, trust=trust, on_event=tell, on_kept=lambda *moved: kept.append(moved)
            )

        students = by_student(table)
        if as_json:
            aside = {short(path): short(now) for path, now in kept}
            print_json({"students": records(students), "grades": records(table), "kept_aside": aside})
            return
        rows = table[["result", "exercise", "file", "why"]].astype(str).to_numpy().tolist()
        print_lines(columns_of([["result", "exercise", "file", "why"], *rows]))
        print_lines(["", *columns_of([list(students), *students.astype(str).to_numpy().tolist()])])
        counts = table["result"].value_counts()
        print_lines(["", ", ".join(f"{counts.get(each, 0)} {each}" for each in RESULTS)])
        print_lines([f"as tables: {short(grade)}/{STUDENTS} (a row a student), {short(grade)}/{GRADED}"])
        print_lines([f"{short(path)} had been changed since: it is kept as {short(now)}" for path, now in kept])
    else:
        from netrepro.workbench.classroom.exercises import exercises as list_of

        slug = ""
        for each in list_of(slugs):
            print_lines(["", each.slug] if each.slug != slug else [])
            slug = each.slug
            how = f" [checked: {each.answer}, {each.how_close}]" if each.answer else " [read by a person]"
            print_lines(folded(each.text + how, f"  {each.number}. ", "     "))
