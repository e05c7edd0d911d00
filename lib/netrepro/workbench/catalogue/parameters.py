"""Typed notebook parameters with their ranges: read from the cell tagged `parameters`, checked before anything starts.

papermill only warns about a mistyped name and never looks at types. This module reads what
papermill.inspect_notebook reads (a test compares them) but does not import papermill, so that a typing error is
reported at once.
"""

from __future__ import annotations

import ast
import io
import math
import os
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from netrepro.allowed_values import PATHS
from netrepro.errors import NetreproError, nearest
from netrepro.workbench.catalogue.ranges import range_of

# The types that a parameter may have; a string from the command line is converted to the parameter's type.
TYPES: dict[str, Any] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "list[int]": list[int],
    "list[float]": list[float],
    "list[str]": list[str],
}


QUOTES = "'\""
WORD = re.compile(r"""\s*(?P<word>"[^"]*"\s*(?=,)|'[^']*'\s*(?=,)|[^,]*),""")


@dataclass(frozen=True)
class Parameter:
    """One line `name: type = default  # help with unit [range]` of the parameters cell; see `ranges` for [range]."""

    name: str
    type: str
    default: Any
    help: str

    def parse(self, given: Any) -> Any:
        """Convert a value to the parameter's type, check that it is in the range, and return it.

        Text is parsed (`0.5`, `true`, `0.1,0.2`, `"a,b",c`; quotes hold a word together). NumPy's numbers and arrays,
        tuples and paths become plain numbers, lists and strings.

        Raises NetreproError for a value of another type, out of the range or not finite.
        """
        value = _plain(given)
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

    @property
    def is_number(self) -> bool:
        """True where the parameter is one number."""
        return self.type in ("int", "float")

    def names_path(self, value: Any) -> bool:
        """Tell whether a value is the path of a file or folder that the parameter's range allows."""
        limits = range_of(self.name, self.help)
        return limits is not None and limits.is_path(value)

    def may_name_path(self, value: Any) -> bool:
        """Tell whether a value may be the path of a file or folder: a text that is no word of the parameter's range,
        where that has paths, and any text where there is no range. No file is looked for."""
        limits = range_of(self.name, self.help)
        if limits is None:
            return bool(value) and self.type in ("str", "list[str]")
        if not any(word in PATHS for word in limits.words):
            return False
        return bool(value) and (value in PATHS or value not in limits.words)

    def _parse_text(self, text: str) -> Any:
        """Return the value of a text, or the text itself where it is not of the type; the caller then reports that."""
        if self.type.startswith("list["):
            item = Parameter(self.name, self.type[5:-1], self.default, self.help)
            parts = [part for part in words_of(text.strip("[] ")) if part]
            if item.type != "str":
                return [item._parse_text(part) for part in parts]
            return text if any(map(_is_half_quoted, parts)) else [_unquoted(part) for part in parts]
        read = _read_bool if self.type == "bool" else TYPES[self.type]
        try:
            return read(text)
        except ValueError:
            return text


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _read_bool(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError
    return text.strip().lower() == "true"


def words_of(text: str) -> list[str]:
    """Split a text at its commas, but not at those in quotes ("..." or '...' around a whole word), and strip blanks.

    >>> words_of("a, 'b,c', it's")
    ['a', "'b,c'", "it's"]
    """
    return [match["word"].strip() for match in WORD.finditer(f"{text},")]


def _is_half_quoted(word: str) -> bool:
    return word[0] in QUOTES and _unquoted(word) == word


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in QUOTES
    return text[1:-1] if is_quoted else text


def written_value(value: Any) -> str:
    """Write a parameter's value as `parse` reads it: a list with commas, words that need them in quotes."""
    return ",".join(map(_written_word, value)) if isinstance(value, list) else str(value)


def _written_word(value: Any) -> str:
    word = str(value)
    if not isinstance(value, str) or (word and word == word.strip("[] ") and not set(word) & set(f",{QUOTES}")):
        return word
    return f"'{word}'" if '"' in word else f'"{word}"'


def read_parameters(notebook: Mapping[str, Any], *, helps: bool = True) -> dict[str, Parameter]:
    """Read the parameters of a notebook (its JSON as a mapping), in order: name -> Parameter.

    helps : whether to read their help texts with the ranges. A stranger's range may name files of this machine.

    Raises NetreproError when no cell is tagged `parameters`, when a line of that cell is not
    `name: type = literal  # help` with a type of TYPES, or when a default is out of its range.
    """
    for cell in notebook["cells"]:
        if "parameters" in cell.get("metadata", {}).get("tags", []):
            source = cell["source"]
            return _read_cell(source if isinstance(source, str) else "".join(source), helps)
    raise NetreproError("the notebook has no cell tagged `parameters`", "copy that of notebooks/_template.ipynb")


def _read_cell(source: str, helps: bool) -> dict[str, Parameter]:
    form = "write it as  name: type = value  # help with unit"
    try:
        statements = ast.parse(source).body
        comments = {
            token.start[0]: token.string.lstrip("# ")
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if helps and token.type == tokenize.COMMENT
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
    """Convert every value to its parameter's type; a path becomes absolute, relative to the working directory.

    of : the notebook's slug, for messages. Raises NetreproError for a name that is no parameter (with the nearest one)
    and for a value that `Parameter.parse` refuses.
    """
    checked = {}
    for name, value in given.items():
        if name not in parameters:
            raise NetreproError(f"{of} has no parameter {name!r}", nearest(name, parameters))
        value = parameters[name].parse(value)
        checked[name] = str(Path(value).expanduser().absolute()) if parameters[name].names_path(value) else value
    return checked


def files_named(parameters: Mapping[str, Parameter], values: Mapping[str, Any], beside: Path) -> list[Path]:
    """List the files that values name, and all files in the folders that values name.

    beside : the folder to which relative paths refer.
    """
    paths = [beside / Path(value).expanduser() for name, value in values.items() if parameters[name].names_path(value)]
    return [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path]) if file.is_file()]
