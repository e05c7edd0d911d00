"""Exports with which other people check a paper: an artifact's appendix, a codecheck, a research object.

artifact    ARTIFACT.md: claims C1, C2, ... and the experiments E1, E2, ... that decide them, with their cost
codecheck   codecheck.yml (codecheck.org.uk, configuration 1.0) beside the figures, tables and results that it names
ro-crate    ro-crate-metadata.json (RO-Crate 1.1, Process Run Crate 0.5) beside the files of a run's folder
"""

from __future__ import annotations

import json
import math
import mimetypes
import re
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from netrepro import __version__
from netrepro.claims import Claim, load_claims
from netrepro.claims.scorecard import scorecard
from netrepro.errors import NetreproError, nearest
from netrepro.files import file_sha256, replace_folder, unique_word
from netrepro.paths import data_dir, runs_dir
from netrepro.study import TABLES
from netrepro.workbench.catalogue.notebooks import Notebook, find
from netrepro.workbench.cli.console import said_words, verdict_words
from netrepro.workbench.code import code_of
from netrepro.workbench.notebook.looks import BADGING, REPOSITORY
from netrepro.workbench.running import run_folder
from netrepro.workbench.running.run_folder import Kept, own_results, read_kept, standard_runs
from netrepro.workbench.running.standard import run_command

SET_UP_MINUTES = (5, 15)  # for the set-up: a person's time, and the time of two cores
PERSONS_MINUTES = 2  # a person's time to type an experiment's commands and read its verdicts
TITLE = re.compile(r"(?P<title>.+) \((?P<authors>.+?), (?P<venue>[^,]*(?:, )?\d{4})\)")


def export(slug: str, kind: str, into: Path | None = None, run: Path | None = None) -> Path:
    """Write a paper, or a run of it, in a form that other people check.

    Parameters
    ----------
    kind : "artifact", "codecheck" or "ro-crate".
    into : a new or empty folder to write to; default: one below runs/export/, which replaces the last export there.
    run : the folder of the run; default: the newest run with standard settings that ended well. None for an artifact.

    Returns
    -------
    The folder that was written.

    Raises
    ------
    NetreproError : for an unknown kind, a notebook that is no paper, a folder that is not empty or cannot be written,
        an artifact with a run, and where no run ended well.
    """
    if kind not in KINDS:
        raise NetreproError(f"nothing is exported as {kind!r}", nearest(kind, KINDS))
    notebook = find(slug)
    if notebook.problem:
        raise NetreproError(notebook.problem)
    if notebook.declaration.kind != "paper":
        raise NetreproError(f"{notebook.slug} is no paper: it has no claims", "see `netrepro scorecard`")
    final = (into or runs_dir() / "export" / f"{notebook.slug}-{kind}").absolute()
    new, aside = (final.with_name(f".{final.name}-{unique_word()}") for _ in range(2))
    try:
        if into is not None and final.exists() and (not final.is_dir() or any(final.iterdir())):
            raise NetreproError(f"{into} is not empty", "choose another folder with --into")
        final.parent.mkdir(parents=True, exist_ok=True)
        new.mkdir()
        KINDS[kind](notebook, new, run)
        replace_folder(new, final, aside)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        problem = f"cannot write {into or final}: {error.strerror}{where}"
        raise NetreproError(problem, "choose another folder with --into") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return into or final


def _good_run(notebook: Notebook, folder: Path | None) -> Kept:
    if folder is not None:
        kept = read_kept(folder)
        if not kept.good or kept.slug != notebook.slug:
            raise NetreproError(
                f"{folder} is no good run of {notebook.slug}", kept.problem or f"it is one of {kept.slug}"
            )
        return kept
    for kept in standard_runs(notebook.slug):
        if kept.good:
            return kept
    raise NetreproError(f"no run of {notebook.slug} ended well", f"run it: netrepro run {notebook.slug}")


# An artifact's appendix ---------------------------------------------------------------------------


def _write_artifact(notebook: Notebook, folder: Path, run: Path | None) -> None:
    if run is not None:
        raise NetreproError("an artifact is a paper's, not a run's", "leave --run out")
    (folder / "ARTIFACT.md").write_text("\n".join(artifact_lines(notebook)) + "\n", encoding="utf-8")


def artifact_lines(notebook: Notebook) -> list[str]:
    """Return the lines of the appendix of a paper's artifact, in Markdown."""
    paper, declared, slug = load_claims(notebook.slug), notebook.declaration, notebook.slug
    claims = paper.main_first()
    numbers = {claim.id: f"C{number}" for number, claim in enumerate(claims, 1)}
    decided: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        if claim.decided_by is not None:
            decided.setdefault((claim.decided_by.profile, claim.decided_by.tier), []).append(claim)
    experiments = {key: f"E{number}" for number, key in enumerate(decided, 1)}
    mine, published = scorecard([slug], results=own_results, code=code_of), scorecard([slug], code=code_of)
    rows = {row["claim"]: row for row in (mine if mine["ran"].any() else published).to_dict("records")}
    whose = "mine, from runs/" if mine["ran"].any() else "those in figures/"
    person, computer = SET_UP_MINUTES
    as_root = [number for (_, tier), number in experiments.items() if tier == "privileged"]
    root = f"root for {' and '.join(as_root)}" if as_root else "no root"
    lines = [
        f"# Artifact appendix: {paper.title}",
        "",
        f"{BADGING} Verdicts in this appendix are {whose}.",
        "",
        "## What it needs",
        "",
        f"Linux, Python 3.11 to 3.14, make and a C++ compiler; {root}; "
        f"{max(declared.memory_mb.values())} MB of memory and about 3 GB of disk. `netrepro doctor` says what "
        "this machine lacks, and which experiment needs it.",
        "",
        f"## Set-up [{person} human-minutes + {computer} compute-minutes]",
        "",
        *_commands(f"git clone {REPOSITORY}", "cd netrepro && make setup && source .venv/bin/activate"),
        f"## A first look [1 human-minute + {_minutes(declared.budget_s['quick'])} compute-minutes]",
        "",
        *_commands(f"netrepro run {slug}"),
        "It ends with the paper's rows of the scorecard and says where the executed notebook lies.",
        "",
        "## Claims",
        "",
    ]
    for claim in claims:
        key = (claim.decided_by.profile, claim.decided_by.tier) if claim.decided_by else None
        by = f"decided by {experiments[key]}" if key else "decided by the best tier"
        if not claim.comparable:
            by = "shown, not judged, as hardware or data that we lack decides it"
        row = rows[claim.id] | {"source": claim.source}
        unit = f" {claim.unit}" if claim.unit else ""
        lines += [
            f"- **{numbers[claim.id]}** (`{claim.id}`, {claim.role}): {claim.says} ({claim.where}). Published: "
            f"{said_words(row)}{unit}; accepted: {claim.accept}; {by}. "
            f"Control: {claim.control or 'none, so that an agreement does not count'}."
        ]
    lines += ["", "## Experiments", ""]
    for (profile, tier), deciding in decided.items():
        seconds, memory = declared.budget_on(tier, profile), declared.memory_mb[profile]
        cost = f"{PERSONS_MINUTES} human-minutes + {_minutes(seconds)} compute-minutes + {memory} MB of memory"
        lines += [
            f"### {experiments[profile, tier]}: {profile} profile, tier {tier} [{cost}]",
            "",
            f"Decides {', '.join(numbers[claim.id] for claim in deciding)}. "
            + " ".join(f"{reason[:1].upper()}{reason[1:]}." for reason in _reasons(deciding)),
            "",
            *_commands(
                *(["netrepro kernel build   # once; 6 compute-minutes"] if tier == "virtual" else []),
                run_command(slug, profile, tier, {}),
                f"netrepro scorecard {slug}",
            ),
            "| claim | verdict | value | 95 % interval |",
            "| --- | --- | ---: | --- |",
            *(_result_line(numbers[claim.id], rows[claim.id]) for claim in deciding),
            "",
        ]
    lines += [
        "Compute-minutes are what the notebook declares at most, of this machine's processors. Another parameter: "
        f"`netrepro show {slug}` lists them, `netrepro run {slug} -p name=value` sets one.",
    ]
    return lines


def _commands(*lines: str) -> list[str]:
    return ["```", *lines, "```", ""]


def _minutes(seconds: float) -> int:
    return max(1, math.ceil(seconds / 60))


def _reasons(claims: list[Claim]) -> list[str]:
    return list(dict.fromkeys(claim.decided_by.because for claim in claims if claim.decided_by is not None))


def _result_line(number: str, row: Mapping[str, Any]) -> str:
    value, low, high = (row[name] for name in ("value", "interval_low", "interval_high"))
    shown = "" if math.isnan(value) else f"{value:.4g}"
    spread = "" if math.isnan(low) else f"{low:.4g} to {high:.4g}"
    side = {f"mine_{name}": row[name] for name in ("verdict", "counts", "stale", "of_release")} | {
        "settled": row["settled"]
    }
    return f"| {number} | {verdict_words(side, 'mine')} | {shown} | {spread} |"


# A codecheck --------------------------------------------------------------------------------------


def _write_codecheck(notebook: Notebook, folder: Path, run: Path | None) -> None:
    kept, paper = _good_run(notebook, run), load_claims(notebook.slug)
    assert kept.result is not None
    for name in _outputs(kept):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(kept.folder / name, folder / name)
    said = TITLE.fullmatch(paper.title)
    authors = re.split(r", | and ", said["authors"].split("; ")[-1]) if said else ["the netrepro authors"]
    content = {
        "version": "https://codecheck.org.uk/spec/config/1.0/",
        "paper": {
            "title": said["title"] if said else paper.title,
            "authors": [{"name": name} for name in authors],
            **({"reference": said["venue"]} if said else {}),
        },
        "manifest": [{"file": name, "comment": _comment(name)} for name in _outputs(kept)],
        "repository": REPOSITORY,
        "check_time": kept.manifest.get("ended", datetime.now(UTC).isoformat(timespec="seconds")),
        "summary": f"{BADGING} The files are of `{_command(kept)}`, at commit {kept.result.commit} of the repository, "
        f"profile {kept.result.profile}, tier {kept.result.tier}: {kept.result.answer}",
    }
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    head = (
        "# codechecker, certificate and report are for whoever checks: see https://codecheck.org.uk/spec/config/1.0/\n"
    )
    (folder / "codecheck.yml").write_text(head + text, encoding="utf-8")


def _outputs(kept: Kept) -> list[str]:
    """List the files of a run that others compare with theirs: results, figures, tables."""
    paths = [kept.folder / run_folder.RESULTS, *sorted(kept.folder.glob("*.png"))]
    paths += sorted(path for path in (kept.folder / TABLES).rglob("*") if path.is_file())
    return [path.relative_to(kept.folder).as_posix() for path in paths]


def _comment(name: str) -> str:
    if name == run_folder.RESULTS:
        return "every claim's values, one a repetition, and those of its control"
    place = Path(name)
    return f"{'figure' if place.suffix == '.png' else 'table'} {place.stem}"


def _command(kept: Kept) -> str:
    assert kept.result is not None
    return run_command(kept.slug, kept.result.profile, kept.result.tier, kept.result.changed)


# A research object --------------------------------------------------------------------------------


def _write_crate(notebook: Notebook, folder: Path, run: Path | None) -> None:
    kept, paper = _good_run(notebook, run), load_claims(notebook.slug)
    assert kept.result is not None
    shutil.copytree(kept.folder, folder, dirs_exist_ok=True)
    shutil.copy2(data_dir(notebook.slug) / "claims.yaml", folder)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    made = [name for name in names if name != "claims.yaml"]
    manifest, result = kept.manifest, kept.result
    parameters: dict[str, Any] = {
        "profile": result.profile,
        "tier": result.tier,
        "repetitions": result.repetitions,
        "seed": result.seed,
    }
    parameters |= result.parameters
    values: list[dict[str, Any]] = [
        {"@id": f"#{name}", "@type": "PropertyValue", "name": name, "value": value}
        for name, value in parameters.items()
    ]
    ended = manifest.get("ended", str(result.date))
    graph = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"A run of: {paper.title}",
            "description": f"{BADGING} {result.answer}",
            "datePublished": ended,
            "license": {"@id": "https://spdx.org/licenses/MIT"},
            "conformsTo": {"@id": "https://w3id.org/ro/wfrun/process/0.5"},
            "hasPart": _references(names),
            "mentions": {"@id": "#run"},
        },
        {
            "@id": "#run",
            "@type": "CreateAction",
            "name": _command(kept),
            "instrument": {"@id": "#netrepro"},
            "object": [{"@id": "claims.yaml"}, *_references([value["@id"] for value in values])],
            "result": _references(made),
            "endTime": ended,
            **({"startTime": manifest["started"]} if "started" in manifest else {}),
        },
        {
            "@id": "#netrepro",
            "@type": "SoftwareApplication",
            "name": "netrepro",
            "url": REPOSITORY,
            "softwareVersion": f"{__version__}, commit {result.commit}",
        },
        {"@id": "https://spdx.org/licenses/MIT", "@type": "CreativeWork", "name": "MIT License"},
        {
            "@id": "https://w3id.org/ro/wfrun/process/0.5",
            "@type": "CreativeWork",
            "name": "Process Run Crate",
            "version": "0.5",
        },
        *values,
        *(_file(folder, name) for name in names),
    ]
    content = {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (folder / "ro-crate-metadata.json").write_text(text, encoding="utf-8")


def _references(names: list[str]) -> list[dict[str, str]]:
    return [{"@id": name} for name in names]


def _file(folder: Path, name: str) -> dict[str, Any]:
    kind = mimetypes.guess_type(name)[0] or ("application/x-ipynb+json" if name.endswith(".ipynb") else "text/plain")
    size = str((folder / name).stat().st_size)
    return {
        "@id": name,
        "@type": "File",
        "name": name,
        "contentSize": size,
        "encodingFormat": kind,
        "sha256": file_sha256(folder / name),
    }


KINDS: dict[str, Callable[[Notebook, Path, Path | None], None]] = {
    "artifact": _write_artifact,
    "codecheck": _write_codecheck,
    "ro-crate": _write_crate,
}
