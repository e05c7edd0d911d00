"""A gallery: static pages of the executed notebooks, the scorecard as their index, the library's functions, the schema
of claims.yaml. The pages load nothing from the network and work from a folder.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import html
import importlib
import importlib.util
import io
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pandas as pd
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import math_to_image
from PIL import Image

import netrepro
from netrepro.claims import claims_schema, load_claims, paper_level
from netrepro.claims.reproduction import reproduction
from netrepro.claims.scorecard import look_of, problems_of, release_text, scorecard
from netrepro.errors import NetreproError
from netrepro.files import whole_file, write_atomically
from netrepro.paths import figures_dir
from netrepro.workbench.catalogue.notebooks import Notebook, catalogue
from netrepro.workbench.cli.console import judged_cells
from netrepro.workbench.code import code_of
from netrepro.workbench.notebook.looks import BADGES, BADGING, BINDER, REPOSITORY, VERDICT_LOOKS
from netrepro.workbench.publishing.own_network import OWN_PAGE
from netrepro.workbench.publishing.scorecard import claims_table, counts_by_level, sorting_script
from netrepro.workbench.publishing.templating import anchor, render
from netrepro.workbench.running import run_folder
from netrepro.workbench.running.run_folder import newest_executed, own_results, standard_runs

if TYPE_CHECKING:
    from netrepro.workbench.publishing.live import LivePage

THUMBNAILS = "thumbnails"
THUMBNAIL_PIXELS = (240, 130)
WIDGET = "application/vnd.jupyter.widget-view+json"
PROGRESS_BAR = re.compile(r"\d+%\|")  # in a widget's plain text
FOR_JUPYTERLAB = "to play with this, open the notebook in JupyterLab"
SCRIPT = re.compile(r"<script\b", re.IGNORECASE)
INLINE_SCRIPT = re.compile(r"<script\b[^>]*>(.*?)</script>", re.DOTALL)
META = re.compile(r"<(?=meta\b)", re.IGNORECASE)
NOTEBOOK_LINK = re.compile(r'(<a [^>]*href=")(?:\./)?(\d\d_[a-z0-9_]+)\.ipynb(?=[#"])')
SCHEMA = "claims.schema.json"
EXPLORE = "report.explore("
PLAY_STANDS = "<p>the play stands here</p>"
ANCHOR = re.compile(r'\bid="([^"]+)"')
ANCHOR_LINK = re.compile(r'<a href="(?P<place>[^"#:]*)#(?P<name>[^"]+)">(?P<words>[^<]*)</a>')
FORMULA = re.compile(r"\$(?!\s)[^$`\n]+(?<!\s)\$")


@dataclass(frozen=True)
class Page:
    """A notebook's page: its file, and the folder of the run that it shows (None: nobody has run the notebook)."""

    notebook: Notebook
    file: str
    run: Path | None


def gallery(
    into: Path,
    *,
    functions: bool = True,
    live: bool = False,
    progress: Callable[[Iterable[Notebook]], Iterable[Notebook]] = iter,
) -> list[Page]:
    """Write index.html, a page for each notebook, functions/ and the schema of claims.yaml into a folder.

    A paper's page shows the newest run in runs/ that ended well and decides claims, preferably main ones, or else
    another good run. Without a good run it shows the notebook without outputs, and says so. Other files of the folder
    stay.

    Parameters
    ----------
    functions : whether to describe the library's functions too, which needs pdoc.
    live : whether to make live pages too, in live/ (`netrepro.workbench.publishing.live`), which needs Emscripten.
    progress : called with the notebooks, returns an iterable over them, such as a progress bar.

    Raises
    ------
    NetreproError : for a folder that cannot be written, where pdoc is missing, and as the live pages do.
    """
    if functions and importlib.util.find_spec("pdoc") is None:
        raise NetreproError("pdoc is not installed", "pip install pdoc, or leave the functions out: --no-functions")
    try:
        into.mkdir(parents=True, exist_ok=True)
        shown = [notebook for notebook in catalogue() if not notebook.problem]
        plays = _plays(shown) if live else {}
        pages = [write_page(notebook, into, plays.get(notebook.slug)) for notebook in progress(shown)]
        write_atomically(into / SCHEMA, claims_schema())
        played = _write_live(pages, plays, into) if live else {}
        write_atomically(into / "index.html", _index(pages, functions, _thumbnails(pages, into), played))
    except OSError as error:
        raise NetreproError(f"cannot write to {into}: {error.strerror}", "choose another folder") from None
    if functions:
        _describe_functions(into / "functions")
    return pages


def _plays(notebooks: Sequence[Notebook]) -> dict[str, LivePage]:
    """Describe the live pages of papers that have one, by slug."""
    from netrepro.workbench.publishing.live import live_page

    slugs = [each.slug for each in notebooks if each.declaration.kind == "paper"]
    made = {slug: live_page(importlib.import_module(f"netrepro.papers.{slug}").STUDY) for slug in slugs}
    return {slug: page for slug, page in made.items() if page is not None}


def _write_live(pages: list[Page], plays: Mapping[str, LivePage], into: Path) -> dict[str, str]:
    """Write the papers' live pages, and a network of one's own; return their files by slug, or name."""
    from netrepro.workbench.publishing.live import write_live_pages

    notebooks = {page.notebook.slug: f"../{page.file}" for page in pages}
    written = write_live_pages(list(plays.values()), notebooks, into / "live")
    return {path.stem: f"live/{path.name}" for path in written} | {OWN_PAGE: f"live/{OWN_PAGE}"}


def write_page(notebook: Notebook, into: Path, live: LivePage | None = None) -> Page:
    """Write a notebook's page. live : the play that stands in it for the widgets of `explore`; it needs no kernel."""
    from nbconvert import HTMLExporter

    play, scripts = _play_inside(live) if live else ("", [])

    run = _run_shown(notebook)
    content: Any = nbformat.read(run / run_folder.EXECUTED if run else notebook.path, as_version=4)
    for cell in content.cells:
        if cell.cell_type == "markdown":
            cell.source = FORMULA.sub(_drawn, cell.source)
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if not _is_progress_bar(output)]
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if WIDGET in data or SCRIPT.search(data.get("text/html", "")):  # needs a kernel or a script
                output.data = nbformat.from_dict({"text/plain": FOR_JUPYTERLAB})
        if play and cell.cell_type == "code" and EXPLORE in cell.source:
            cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": PLAY_STANDS})]
    content.metadata.pop("widgets", None)
    exporter = HTMLExporter(require_js_url="", jquery_url="", mathjax_url="", mermaid_js_url="")
    body, _ = exporter.from_notebook_node(content)
    empty, _ = exporter.from_notebook_node(nbformat.v4.new_notebook())
    body = _with_policy(body, [*INLINE_SCRIPT.findall(empty), *scripts], runs_code=bool(play))
    body = body.replace(PLAY_STANDS, play)
    page = Page(notebook, f"{notebook.name}.html", run)
    head = render("notebook_head", is_run=run is not None)
    body = NOTEBOOK_LINK.sub(r"\1\2.html", body)
    body = re.sub(r"(<body[^>]*>)", lambda match: match[1] + head, body, count=1)
    if notebook.declaration.kind == "paper":
        body = _with_anchors(body, [claim.id for claim in load_claims(notebook.slug).claims])
    write_atomically(into / page.file, body)
    return page


def _play_inside(live: LivePage) -> tuple[str, list[str]]:
    from netrepro.workbench.publishing.live import play_inside

    return play_inside(live)


def _with_policy(page: str, scripts: list[str], *, runs_code: bool = False) -> str:
    """Forbid a page to load anything and to run a script that is not one of `scripts` (the template's texts).

    A run may be somebody else's, and an output of it any HTML. The policy (W3C, Content Security Policy Level 3) stands
    before all of it. A browser obeys meta elements in a body, too, such as redirections: they become text.
    The policy holds in a play's frame, too. runs_code : whether WebAssembly may run, and a worker.
    """
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    if runs_code:
        allowed += " 'wasm-unsafe-eval'; worker-src blob:"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head, begins, rest = page.partition("<head>")
    template, ends, rest = rest.partition("</head>")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return f"{head}{begins}{meta}{template}{ends}{META.sub('&lt;', rest)}"


def _run_shown(notebook: Notebook) -> Path | None:
    """Return the folder of the newest good run with standard settings that decides claims of a paper, main claims
    first; else of another good run; None where there is none."""
    if notebook.declaration.kind != "paper":
        return newest_executed(notebook.slug)
    newest: dict[str, Path] = {}
    for kept in standard_runs(notebook.slug):
        if kept.result and (kept.folder / run_folder.EXECUTED).exists():
            newest.setdefault(kept.result.key, kept.folder)
    deciding = [claim.decided_by.key for claim in load_claims(notebook.slug).main_first() if claim.decided_by]
    return next((newest[key] for key in deciding if key in newest), None) or newest_executed(notebook.slug)


def _is_progress_bar(output: Any) -> bool:
    data = output.get("data", {})
    return WIDGET in data and PROGRESS_BAR.search(data.get("text/plain", "")) is not None


def _thumbnails(pages: list[Page], into: Path) -> dict[str, str]:
    """Make a small picture of each paper's first figure with a single panel (or of its first figure), from the run that
    its page shows or the published figures. Return the files by slug."""
    made = {}
    (into / THUMBNAILS).mkdir(exist_ok=True)
    for page in pages:
        slug = page.notebook.slug
        figures = sorted((page.run or figures_dir(slug)).glob("*.png"))
        if page.notebook.declaration.kind == "paper" and figures:
            made[slug] = f"{THUMBNAILS}/{slug}.png"
            with Image.open(min(figures, key=_is_a_strip)) as picture, whole_file(into / made[slug]) as file:
                small = picture.convert("RGB")
                small.thumbnail(THUMBNAIL_PIXELS)
                small.save(file, format="PNG")
    return made


def _is_a_strip(figure: Path) -> bool:
    """Tell whether a figure has panels side by side, which are too small to see in a thumbnail."""
    with Image.open(figure) as picture:
        return picture.width > 2 * picture.height


def _drawn(formula: re.Match[str]) -> str:
    """Return a formula as an inline picture in HTML, or its text where matplotlib cannot draw it."""
    drawing = io.BytesIO()
    try:
        below = math_to_image(formula[0], drawing, prop=FontProperties(size=10.5), dpi=72, format="svg")
    except ValueError:
        return formula[0]
    data = base64.b64encode(drawing.getvalue()).decode()
    words = html.escape(formula[0].strip("$"), quote=True)
    return f'<img alt="{words}" style="vertical-align: -{below:.1f}pt" src="data:image/svg+xml;base64,{data}">'


def _with_anchors(page: str, claims: list[str]) -> str:
    """Give each row of the table of verdicts the anchor of its claim; without that table, put all anchors at section 8.

    claims : their ids, in the order of the rows.
    """
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        head, mark, rows = table.partition("<tbody>")
        if mark and re.search(r"<th[^>]*>\s*verdict\s*</th>", head) and rows.count("<tr>") == len(claims):
            for claim in claims:
                rows = rows.replace("<tr>", f'<tr id="{anchor(claim)}">', 1)
            return page.replace(table, head + mark + rows)
    anchors = "".join(f'<a id="{anchor(claim)}"></a>' for claim in claims)
    return re.sub(r'(<h2 id="8-)', lambda match: anchors + match[1], page, count=1)


def _index(pages: list[Page], functions: bool, thumbnails: dict[str, str], played: dict[str, str]) -> str:
    links = {page.notebook.slug: page.file for page in pages}
    questions = {page.notebook.slug: page.notebook.title for page in pages}
    mine, published = scorecard(results=own_results, code=code_of), scorecard(code=code_of)
    for slug, problem in problems_of(mine, published).items():
        warnings.warn(f"{slug} is left out: {problem}", stacklevel=3)
    any_run = mine["ran"].any()
    own = dict(list(reproduction(published, own_results).groupby("paper")))
    guides = [page for page in pages if page.notebook.declaration.kind == "guide"]
    others = [(page.file, page.notebook.title) for page in guides]
    others += [(played[OWN_PAGE], "A network of your own")] if OWN_PAGE in played else []
    others += [("functions/index.html", "The library’s functions")] if functions else []
    others.append((SCHEMA, "The schema of claims.yaml"))
    return render(
        "gallery",
        looks=VERDICT_LOOKS,
        repository=REPOSITORY,
        badging=BADGING,
        binder=BINDER,
        counts=counts_by_level(published) if len(published) else "",
        release=release_text(published),
        version=netrepro.__version__,
        papers=[
            _paper(str(slug), claims, own[slug], links)
            | {"question": questions.get(slug, "")}
            | {"picture": thumbnails.get(str(slug), ""), "live": played.get(str(slug), "")}
            for slug, claims in published.groupby("paper", sort=False)
        ],
        others=others,
        claims=claims_table(published, mine if any_run else None, links),
        script=sorting_script(),
    )


def _paper(slug: str, claims: pd.DataFrame, own: pd.DataFrame, links: dict[str, str]) -> dict[str, Any]:
    """Return a paper's line for the template: its name and page, its published level, what the user's runs say of it,
    and a cell for each claim."""
    title, page = claims["title"].iloc[0], links.get(slug, "")
    mine = dict(zip(own["claim"], own["mine"], strict=True))
    cells = [row | {"look": look_of(row), "mine": mine[row["claim"]]} for row in claims.to_dict("records")]
    level = paper_level(claims.itertuples())
    judged, same, its_run, other = judged_cells(own)
    said = f"your runs judge {judged}" if judged != "not run" else ""
    parts = [f"{same} as published"] * bool(same) + [f"{its_run} as the published run of that size"] * bool(its_run)
    parts += [f"{other} otherwise"] * bool(other)
    said += f": {', '.join(parts)}" if parts else ""
    told = {"level": f"{BADGES[level]} {level}", "own": said}
    return {"slug": slug, "title": title, "page": page, "claims": cells, **told}


def _describe_functions(into: Path) -> None:
    """Run pdoc in its own process, because it imports everything. Name each module: else pdoc leaves some out."""
    command = [sys.executable, "-P", "-c", _PDOC, str(into), *_module_names()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetreproError(f"pdoc failed: {done.stderr.strip()[-300:]}", "leave the functions out: --no-functions")
    _drop_dead_links(into)
    pages = {name: f"{name.replace('.', '/')}.html" for name in _module_names()}
    described = [(name, page, _first_line(name)) for name, page in pages.items() if (into / page).exists()]
    write_atomically(into / "index.html", render("functions", modules=described))


def _drop_dead_links(into: Path) -> None:
    """Replace links whose target no page describes, such as a private class, with their words."""
    texts = {path.resolve(): path.read_text(encoding="utf-8") for path in into.rglob("*.html")}
    anchors = {path: set(ANCHOR.findall(text)) for path, text in texts.items()}

    def living(path: Path, link: re.Match[str]) -> str:
        target = (path.parent / link["place"]).resolve() if link["place"] else path
        return link[0] if link["name"] in anchors.get(target, {link["name"]}) else link["words"]

    for path, text in texts.items():
        kept = ANCHOR_LINK.sub(partial(living, path), text)
        if kept != text:
            write_atomically(path, kept)


def _first_line(module: str) -> str:
    """Return the first line of a module's docstring, without importing it."""
    place = Path(netrepro.__file__).parent.joinpath(*module.split(".")[1:])
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


def _module_names() -> list[str]:
    """List every public module of the library."""
    package = Path(netrepro.__file__).parent
    paths = [path.relative_to(package.parent).with_suffix("") for path in sorted(package.rglob("*.py"))]
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    return [name for name in names if "._" not in name]


_PDOC = """
import importlib, sys, pathlib, pdoc
folder, *names = sys.argv[1:]
importable = []
for name in names:
    try:
        importlib.import_module(name)
        importable.append(name)
    except Exception as error:  # what it stands on is not installed, or it is for another kind of process
        print(f"{name} is left out: {error}", file=sys.stderr)
pdoc.render.configure(search=False, show_source=False)
pdoc.pdoc(*importable, output_directory=pathlib.Path(folder))
"""
