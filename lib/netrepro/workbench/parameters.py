"""Typed notebook parameters with their ranges: read from the cell tagged `parameters`, checked before anything starts.

papermill only warns about a mistyped name and never looks at types. The reading here gives what
papermill.inspect_notebook gives (a test compares them) without importing it, so that a typing error is
answered at once.
"""

from __future__ import annotations

import ast
import io
import json
import math
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from netrepro.errors import NetreproError, nearest
from netrepro.workbench.ranges import range_of

# The types a parameter may have; a string from the command line is parsed by them.
TYPES: dict[str, Any] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "list[int]": list[int],
    "list[float]": list[float],
    "list[str]": list[str],
}


@dataclass(frozen=True)
class Parameter:
    """One line `name: type = default  # help with unit [range]` of the parameters cell; see `ranges` for the last."""

    name: str
    type: str
    default: Any
    help: str

    def parse(self, given: Any) -> Any:
        """The value of the right type and in the range. Text is parsed (`0.5`, `true`, `0.1,0.2`).

        Raises NetreproError, for a number that is not finite too.
        """
        value = given
        if isinstance(given, str) and self.type != "str":
            value = self._parse_text(given)
        declared = f"{self.name}: {self.type} = {self.default!r}  # {self.help}"
        try:
            value = TypeAdapter(TYPES[self.type]).validate_python(value, strict=True)
        except ValidationError:
            raise NetreproError(f"parameter {self.name} = {given!r} is not of type {self.type}", declared) from None
        numbers = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, float)]
        if not all(map(math.isfinite, numbers)):
            raise NetreproError(f"parameter {self.name} = {given!r} is not finite", declared)
        limits = range_of(self.name, self.help)
        if limits and not limits.holds(value):
            raise NetreproError(
                f"parameter {self.name} = {given!r} must be {limits.text(self.name)}", limits.advice(value)
            )
        return value

    def _parse_text(self, text: str) -> Any:
        if self.type.startswith("list["):
            item = Parameter(self.name, self.type[5:-1], self.default, self.help)
            parts = [part.strip() for part in text.strip("[] ").split(",")]
            return [item._parse_text(part) if item.type != "str" else part for part in parts if part]
        try:
            return json.loads(text.lower() if self.type == "bool" else text)
        except json.JSONDecodeError:
            return text  # not of the type, as the caller will say


def read_parameters(notebook: Mapping[str, Any]) -> dict[str, Parameter]:
    """The parameters of a notebook (its JSON as a mapping), in order.

    Raises NetreproError when there is no cell tagged `parameters`, or a line of it is not
    `name: type = literal  # help` with one of the known types, or a default is out of its range.
    """
    for cell in notebook["cells"]:
        if "parameters" in cell.get("metadata", {}).get("tags", []):
            source = cell["source"]
            return _read_cell(source if isinstance(source, str) else "".join(source))
    raise NetreproError("the notebook has no cell tagged `parameters`", "copy that of notebooks/_template.ipynb")


def _read_cell(source: str) -> dict[str, Parameter]:
    form = "write it as  name: type = value  # help with unit"
    try:
        statements = ast.parse(source).body
        comments = {
            token.start[0]: token.string.lstrip("# ")
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
    except (SyntaxError, tokenize.TokenError) as error:
        raise NetreproError(f"the parameters cell is not Python: {error}", form) from None
    parameters = {}
    for statement in statements:
        line = ast.unparse(statement)
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            raise NetreproError(f"the parameters cell holds `{line}`", form)
        type_name = ast.unparse(statement.annotation)
        if type_name not in TYPES:
            raise NetreproError(f"parameter {line}: unknown type", nearest(type_name, TYPES))
        try:
            default = ast.literal_eval(statement.value) if statement.value else None
        except ValueError:
            raise NetreproError(f"parameter {line}: the default is not a literal", form) from None
        name = statement.target.id
        parameter = Parameter(name, type_name, default, comments.get(statement.end_lineno or 0, ""))
        parameters[name] = Parameter(name, type_name, parameter.parse(default), parameter.help)
    return parameters


def check_parameters(parameters: Mapping[str, Parameter], given: Mapping[str, Any], of: str) -> dict[str, Any]:
    """`given` with every value of its parameter's type.

    Raises NetreproError for a name that notebook `of` does not have (naming the nearest) or an ill-typed value.
    """
    checked = {}
    for name, value in given.items():
        if name not in parameters:
            raise NetreproError(f"{of} has no parameter {name!r}", nearest(name, parameters))
        checked[name] = parameters[name].parse(value)
    return checked
