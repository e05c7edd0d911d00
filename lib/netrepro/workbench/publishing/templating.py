"""Pages from the templates beside this file. Values in a template are escaped unless they are Markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup


def anchor(claim: str) -> str:
    """Return the id of a claim's anchor in its notebook's page."""
    return f"claim-{claim}"


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    keep_trailing_newline=True,
)
_TEMPLATES.filters["anchor"] = anchor


def render(name: str, **values: Any) -> str:
    """Return a page from the template `<name>.html.j2` with these values."""
    return _TEMPLATES.get_template(f"{name}.html.j2").render(**values)


def macros(name: str) -> Any:
    """Return a template's macros as functions that return Markup."""
    return _TEMPLATES.get_template(f"{name}.html.j2").module


__all__ = ["Markup", "anchor", "macros", "render"]
