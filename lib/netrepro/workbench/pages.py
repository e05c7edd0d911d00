"""A gallery: static pages of the executed notebooks, the scorecard as their index, the library's functions, the schema
of claims.yaml. They need nothing from elsewhere and work from a folder.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import io
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pandas as pd
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import math_to_image

import netrepro
from netrepro.claims import claims_schema, load_claims
from netrepro.claims.scorecard import VERDICT_LOOKS, claims_to_html, combined, filtered, problems_of, scorecard
from netrepro.errors import NetreproError
from netrepro.files import write_atomically
from netrepro.workbench import run_folder
from netrepro.workbench.catalogue import Notebook, catalogue
from netrepro.workbench.run_folder import newest_executed, own_results

WIDGET = "application/vnd.jupyter.widget-view+json"
SCHEMA = "claims.schema.json"
FORMULA = re.compile(r"\$(?!\s)[^$`\n]+(?<!\s)\$")
# Solutions of exercises are blurred until the pointer is on them.
STYLE = "tr:target { outline: 3px solid #0072B2; } .celltag_solution:not(:hover) { filter: blur(6px); }"
HEAD = (
    f"<style>{STYLE}</style>"
    '<p style="font: 14px system-ui, sans-serif"><a style="color: #0b5394" href="index.html">All papers</a></p>'
)


@dataclass(frozen=True)
class Page:
    """A notebook's page: its file, and the folder of the run it shows (None: nobody has run it)."""

    notebook: Notebook
    file: str
    run: Path | None


def gallery(
    into: Path, *, functions: bool = True, progress: Callable[[Iterable[Notebook]], Iterable[Notebook]] = iter
) -> list[Page]:
    """Write index.html, a page a notebook, functions/ and the schema of claims.yaml into a folder.

    A notebook's page shows its newest good run in runs/; without one the notebook as it is, which says so. Other files
    of the folder stay.

    Parameters
    ----------
    functions : whether to describe the library's functions too, for which pdoc is needed.
    progress : wraps the notebooks.

    Raises
    ------
    NetreproError : for a folder that cannot be written, and where pdoc is missing.
    """
    if functions and importlib.util.find_spec("pdoc") is None:
        raise NetreproError("pdoc is not installed", "pip install pdoc, or leave the functions out: --no-functions")
    try:
        into.mkdir(parents=True, exist_ok=True)
        pages = [_write_page(notebook, into) for notebook in progress(catalogue()) if not notebook.problem]
        write_atomically(into / SCHEMA, claims_schema())
        write_atomically(into / "index.html", _index(pages, functions))
    except OSError as error:
        raise NetreproError(f"cannot write to {into}: {error.strerror}", "choose another folder") from None
    if functions:
        _describe_functions(into / "functions")
    return pages


def _write_page(notebook: Notebook, into: Path) -> Page:
    from nbconvert import HTMLExporter

    run = newest_executed(notebook.slug)
    content = nbformat.read(run / run_folder.EXECUTED if run else notebook.path, as_version=4)
    for cell in content.cells:
        if cell.cell_type == "markdown":
            cell.source = FORMULA.sub(_drawn, cell.source)
        for output in cell.get("outputs", []):
            if WIDGET in output.get("data", {}):  # needs a kernel
                output.data = nbformat.from_dict({"text/plain": "to play with this, open the notebook in JupyterLab"})
    content.metadata.pop("widgets", None)
    exporter = HTMLExporter(require_js_url="", jquery_url="", mathjax_url="", mermaid_js_url="")
    body, _ = exporter.from_notebook_node(content)
    page = Page(notebook, f"{notebook.name}.html", run)
    note = "" if run else "<p>Nobody has run this notebook here: it is shown without results.</p>"
    body = re.sub(r"(<body[^>]*>)", lambda found: found[1] + HEAD + note, body, count=1)
    if notebook.declaration.kind == "paper":
        body = _with_anchors(body, [claim.id for claim in load_claims(notebook.slug).claims])
    write_atomically(into / page.file, body)
    return page


def _drawn(formula: re.Match[str]) -> str:
    """A formula as a picture in its line; as it is where matplotlib cannot draw it."""
    drawing = io.BytesIO()
    try:
        below = math_to_image(formula[0], drawing, prop=FontProperties(size=10.5), dpi=72, format="svg")
    except ValueError:
        return formula[0]
    data = base64.b64encode(drawing.getvalue()).decode()
    words = html.escape(formula[0].strip("$"), quote=True)
    return f'<img alt="{words}" style="vertical-align: -{below:.1f}pt" src="data:image/svg+xml;base64,{data}">'


def _with_anchors(page: str, claims: list[str]) -> str:
    """Each row of the table of verdicts gets its claim's anchor, and what there is no row for that of section 8."""
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        head, mark, rows = table.partition("<tbody>")
        if mark and re.search(r"<th[^>]*>\s*verdict\s*</th>", head) and rows.count("<tr>") == len(claims):
            for claim in claims:
                rows = rows.replace("<tr>", f'<tr id="{anchor(claim)}">', 1)
            return page.replace(table, head + mark + rows)
    anchors = "".join(f'<a id="{anchor(claim)}"></a>' for claim in claims)
    return re.sub(r'(<h2 id="8-)', lambda found: anchors + found[1], page, count=1)


def anchor(claim: str) -> str:
    """A claim's place in its notebook's page."""
    return f"claim-{claim}"


def _index(pages: list[Page], functions: bool) -> str:
    links = {page.notebook.slug: page.file for page in pages}
    mine, published = scorecard(results=own_results), scorecard()
    for slug, problem in problems_of(mine, published).items():
        warnings.warn(f"{slug} is left out: {problem}", stacklevel=3)
    any_run = (mine["date"] != "").any()
    shown = combined(mine, published) if any_run else published
    rows = "\n".join(_row(slug, claims, links) for slug, claims in shown.groupby("paper", sort=False))
    guides = [page for page in pages if page.notebook.declaration.kind == "guide"]
    others = [f'<a href="{page.file}">{html.escape(page.notebook.title)}</a>' for page in guides]
    others += ['<a href="functions/index.html">The library’s functions</a>'] if functions else []
    others.append(f'<a href="{SCHEMA}">The schema of claims.yaml</a>')
    table = claims_to_html(published, mine if any_run else None, links=links)
    legend = " ".join(
        f'<span class="cell" style="background: {colour}">{sign or "·"}</span> {verdict}'
        for verdict, (colour, sign) in VERDICT_LOOKS.items()
    )
    return _PAGE.format(others=" · ".join(others), rows=rows, legend=legend, claims=filtered(table))


def _row(slug: str, claims: pd.DataFrame, links: dict[str, str]) -> str:
    """A paper's line: its name, and a cell a claim."""
    pale = "source" in claims and claims["source"].iloc[0] == "published"
    cells = []
    for claim in claims.to_dict("records"):
        colour, sign = VERDICT_LOOKS[claim["verdict"]]
        look = f"background: {colour}" if claim["counts"] else f"color: {colour}; box-shadow: inset 0 0 0 2px {colour}"
        title = html.escape(f"{claim['says']}: {claim['verdict']}", quote=True)
        place = f"{links[slug]}#{anchor(claim['claim'])}" if slug in links else "#"
        classes = "cell pale" if pale else "cell"
        cells.append(f'<a class="{classes}" style="{look}" href="{place}" title="{title}">{sign or "·"}</a>')
    name = f'<a href="{links[slug]}">{slug}</a>' if slug in links else slug
    note = " <small>published, not run here</small>" if pale else ""
    title = html.escape(str(claims["title"].iloc[0]))
    return f"<tr><td>{name}<br><small>{title}</small></td><td>{''.join(cells)}{note}</td></tr>"


def _describe_functions(into: Path) -> None:
    """By pdoc in a process of its own, because it imports everything, and by name, or it leaves modules out."""
    command = [sys.executable, "-c", _PDOC, str(into), *_module_names()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetreproError(f"pdoc failed: {done.stderr.strip()[-300:]}", "leave the functions out: --no-functions")


def _module_names() -> list[str]:
    """Every public module of the library."""
    package = Path(netrepro.__file__).parent
    paths = [path.relative_to(package.parent).with_suffix("") for path in sorted(package.rglob("*.py"))]
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    return [name for name in names if "._" not in name]


_PDOC = """
import importlib, sys, pathlib, pdoc
folder, *names = sys.argv[1:]
found = []
for name in names:
    try:
        importlib.import_module(name)
        found.append(name)
    except Exception as error:  # what it stands on is not installed, or it is for another kind of process
        print(f"{name} is left out: {error}", file=sys.stderr)
pdoc.render.configure(search=False, show_source=False)
pdoc.pdoc(*found, output_directory=pathlib.Path(folder))
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>netrepro: runnable network research</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em auto; padding: 0 1em; max-width: 1140px; color: #222; }}
table {{ border-collapse: collapse; margin-bottom: 2em; width: 100%; }}
th, td {{ border-bottom: 1px solid #ddd; padding: 4px 8px; text-align: left; vertical-align: top; }}
.claims table {{ table-layout: fixed; overflow-wrap: anywhere; }}
.claims th:last-child {{ width: 40%; }}
.papers td:first-child {{ width: 38%; }}
.cell {{ display: inline-block; width: 20px; line-height: 20px; margin: 0 2px 2px 0; text-align: center;
  color: white; font-weight: bold; text-decoration: none; }}
.cell:hover, .cell:focus {{ outline: 2px solid #000; }}
.pale {{ opacity: 0.4; }}
small, summary {{ color: #666; }}
a {{ color: #0b5394; }}
th {{ cursor: pointer; }}
</style></head><body>
<h1>Published network results, run again</h1>
<p>One row a paper, one cell a claim: a click leads to it. Hollow cells do not count, because breaking the mechanism on
purpose did not change them, or was not tried.</p>
<p>{legend}</p>
<table class="papers">
{rows}
</table>
<p>{others}</p>
<h2>Every claim</h2>
{claims}
</body></html>
"""
