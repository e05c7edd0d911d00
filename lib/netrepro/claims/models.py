"""What papers publish, as data: `data/<slug>/claims.yaml`, read strictly.

A mistyped key or an acceptance that cannot be applied is an error that names file, claim and key, because a
silently ignored line would be a claim that nobody checks.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pandas as pd
import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from netrepro.errors import NetreproError, nearest
from netrepro.paths import all_data, data_dir, notebooks_dir
from netrepro.tiers_and_profiles import Profile, Tier

Kind = Literal["effect", "absolute", "proportion", "ordering", "curve"]
KINDS: tuple[str, ...] = get_args(Kind)
Source = Literal["paper", "artefact", "second_hand", "class", "recalled"]
RECALLED: Source = "recalled"
Curve = list[tuple[float, float]]
_End = Annotated[float, Field(allow_inf_nan=True)]

_SHAPES: dict[str, tuple[Any, str]] = {
    "ordering": (list[str], "a list of names, best first"),
    "curve": (Curve, "a list of [x, y] points"),
}
_NUMBER: tuple[Any, str] = (float, "a number")
_KEYS_BY_KIND = {"ordering": ["kendall_at_least"], "curve": ["curve_distance"]}
_NUMBER_KEYS = ["relative", "factor", "band"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Accept(_Strict):
    """The distance to the published value that still counts as agreement: exactly one key.

    relative : published · (1 ± relative). factor : published / factor to published · factor.
    band : [low, high] in the claim's unit; either end may be infinite, not both.
    kendall_at_least : least Kendall tau-b with the published ordering.
    curve_distance : greatest root mean square distance, as a share of the published curve's range.
    """

    relative: float | None = Field(None, gt=0)
    factor: float | None = Field(None, gt=1)
    band: tuple[_End, _End] | None = None
    kendall_at_least: float | None = Field(None, gt=0, le=1)
    curve_distance: float | None = Field(None, gt=0)

    @property
    def key(self) -> str:
        """The one key that is set."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    def __str__(self) -> str:
        """Put into words what is accepted: '± 10 %', 'within a factor of 1.25', '3 to 5', …"""
        if self.band:
            return f"{self.band[0]:g} to {self.band[1]:g}"
        words = {
            "relative": f"± {100 * (self.relative or 0):g} %",
            "factor": f"within a factor of {self.factor}",
            "kendall_at_least": f"Kendall tau ≥ {self.kendall_at_least}",
            "curve_distance": f"distance ≤ {self.curve_distance} of the range",
        }
        return words[self.key]

    @model_validator(mode="after")
    def _exactly_one_key(self) -> Accept:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"needs exactly one of {', '.join(type(self).model_fields)}; has {', '.join(given) or 'none'}"
            )
        if self.band and not self.band[0] <= self.band[1]:
            raise ValueError(f"band [{self.band[0]:g}, {self.band[1]:g}] needs low ≤ high")
        if self.band and math.isinf(self.band[0]) and math.isinf(self.band[1]):
            raise ValueError("a band without ends accepts everything")
        return self


class DecidedBy(_Strict):
    """The evidence that judges a claim: what is most faithful to the paper, not what is highest in a list."""

    tier: Tier = Field(description="where it is measured")
    profile: Profile = Field(description="at which scale; quick only where that is the published one")
    because: str = Field(min_length=1, description="why this evidence is the most faithful to the paper")

    @property
    def key(self) -> str:
        """The key of this evidence in a results file, 'profile/tier'."""
        return f"{self.profile}/{self.tier}"


class Claim(_Strict):
    """One published number, ordering or curve, and what would refute it.

    published : a float (effect, absolute, proportion), names best first (ordering), or [x, y] points (curve) of the
        paper; None where only the class report has it.
    class_report : the same shape, as a class project measured it, or None.
    source : where the number is from that results are judged against: the paper, its authors' programs or data, others
        who tell of it, the class report, or memory. A recalled number is shown, and never counts.
    role : main where the paper's abstract or key result says it in words; main claims decide the paper's level.
    decided_by : the evidence that judges it. None: the best tier's, shown as "not declared".
    comparable : False where hardware, or data that we lack, decides the number, which is shown and not judged. A
        paper's level then rests on its other main claims.
    exact : True for a closed form or a graph, whose repetitions may be equal.
    neutral : for effects, the value that means no effect (1 for a ratio, 0 for a difference).
    bounds : the least and the greatest value that there can be, of an effect or an absolute number, as 0 and 1 of a
        share; its interval stays within them.
    control : what is broken on purpose, and what must happen then; None where there is no control. control_weakness :
        why the control shows nothing (a tautology, another load, a strawman): then the claim does not count.
    fixed : whether the acceptance was written before anything was measured, or after a first look at it.
    monotonic : True for a curve that can only rise or fall, as percentiles do: moving as published then shows nothing.
    blame, settles : for a claim that disagrees, whose fault it is, and the experiment that would settle it; settled :
        where that experiment stands, once it has run.
    timed : True where its values are seconds on this machine: another verdict on another day is then no regression.
    needs : what must be present to measure it (a data set that cannot be shipped), or None.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*$", description="its name, each once in a paper")
    says: str = Field(min_length=1, description="what the paper says, in a line")
    where: str = Field(min_length=1, description="its place: figure, table, section")
    kind: Kind = Field(
        description="effect: against a baseline of the same run; absolute: where hardware does not enter"
    )
    unit: str = Field("", description="of the value; an absolute number needs one")
    published: Any = Field(
        None, description="the paper's number, names best first (ordering), or [x, y] points (curve)"
    )
    class_report: Any = Field(None, description="as a class project measured it, of the same shape")
    source: Source = Field(
        "paper",
        description="where the number is from: the paper, its authors' programs or data (artefact), others who tell of "
        "it (second_hand), the class report (class), or memory (recalled: shown, never counted)",
    )
    role: Literal["main", "detail"] = Field("detail", description="main: said in the abstract or key result")
    accept: Accept = Field(description="what counts as agreement, written before anything is measured: one key")
    decided_by: DecidedBy | None = Field(None, description="the evidence that judges it, chosen before the run")
    comparable_on: tuple[Tier, ...] = Field(
        (), description="tiers on which it may be judged; all where it is decided_by"
    )
    comparable: bool = Field(True, description="false: hardware or data decides the number; shown, not judged")
    exact: bool = Field(False, description="a closed form or a graph, of which repetitions may be the same")
    bounds: tuple[float, float] | None = Field(
        None, description="the least and the greatest value that there can be, as [0, 1] of a share"
    )
    control: str | None = Field(None, min_length=1, description="what is broken on purpose, and what must happen then")
    control_weakness: str | None = Field(None, min_length=1, description="why it is none: the claim does not count")
    fixed: Literal["before", "after a first look"] = Field(description="when the acceptance was written")
    monotonic: bool = Field(False, description="a curve that can only rise or fall")
    blame: Literal["paper", "ours", "unknown"] | None = Field(None, description="whose fault a disagreement is")
    settles: str | None = Field(None, min_length=1, description="the experiment that would settle a disagreement")
    settled: str | None = Field(None, min_length=1, description="where the experiment that settles it stands")
    neutral: float = Field(1.0, description="of an effect: the value that means none (1 of a ratio, 0 of a difference)")
    timed: bool = Field(False, description="its values are seconds of this machine")
    needs: str | None = Field(None, min_length=1, description="what must be present to measure it")
    note: str = Field("", description="what else a reader should know")

    @field_validator("comparable_on")
    @classmethod
    def _each_tier_once(cls, tiers: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(tiers)) < len(tiers):
            raise ValueError(f"a tier is named twice: {', '.join(tiers)}")
        return tiers

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Claim:
        allowed = _KEYS_BY_KIND.get(self.kind, _NUMBER_KEYS)
        if self.accept.key not in allowed:
            raise ValueError(
                f"accept: {self.accept.key!r} does not fit kind {self.kind!r}, which takes " + " or ".join(allowed)
            )
        if self.kind != "effect" and "neutral" in self.model_fields_set:
            raise ValueError(f"neutral: only effects have one, and this is of kind {self.kind!r}")
        if self.bounds and (self.kind not in ("effect", "absolute") or not self.bounds[0] < self.bounds[1]):
            raise ValueError("bounds: of an effect or an absolute number, the least one first")
        if self.kind != "curve" and self.monotonic:
            raise ValueError(f"monotonic: only curves are, and this is of kind {self.kind!r}")
        if self.control_weakness and not self.control:
            raise ValueError("control_weakness: there is no control")
        if (self.blame is None) != (self.settles is None):
            raise ValueError("blame and settles go together: whose fault it is, and what would settle it")
        if self.settled and not self.settles:
            raise ValueError("settled: settles does not say which experiment that is")
        if self.settled and self.blame == "unknown":
            raise ValueError("settled: the experiment has not shown whose fault it is, as blame is unknown")
        self._check_evidence()
        if self.kind == "absolute" and not self.unit:
            raise ValueError("unit: an absolute number needs one")
        for key in ("published", "class_report"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, self._shaped(key, getattr(self, key)))
        if self.expected is None:
            key = "class_report" if self.is_of_class else "published"
            raise ValueError(f"{key}: a claim of source {self.source!r} needs it")
        self._check_expected()
        return self

    def _check_evidence(self) -> None:
        if self.comparable and self.decided_by is None and not self.comparable_on:
            raise ValueError("decided_by: say which evidence judges it (tier, profile, because)")
        if self.decided_by and self.comparable_on and not self.may_be_judged_on(self.decided_by.tier):
            raise ValueError(f"decided_by: {self.decided_by.tier} is not among comparable_on")

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the greatest value that there can be."""
        return (0.0, 1.0) if self.kind == "proportion" else self.bounds or (-math.inf, math.inf)

    def may_be_judged_on(self, tier: str) -> bool:
        """Tell whether evidence of a tier can judge this claim."""
        # A number that does not depend on a machine's speed is the same in virtual time, with Linux's TCP as well.
        comparable = (*self.comparable_on, *(["virtual"] if "simulated" in self.comparable_on else []))
        return not self.comparable_on or tier in comparable

    @property
    def expected(self) -> Any:
        """The value that results are judged against: the paper's, or the class report's."""
        return self.class_report if self.is_of_class else self.published

    @property
    def is_of_class(self) -> bool:
        """True where the class report's number is judged against."""
        return self.source == "class"

    def _shaped(self, key: str, value: Any) -> Any:
        shape, words = _SHAPES.get(self.kind, _NUMBER)
        if isinstance(value, bool):  # YAML reads yes, no, on and off as booleans
            raise ValueError(f"{key}: kind {self.kind!r} needs {words}; got {value!r}")
        try:
            return TypeAdapter(shape, config=ConfigDict(allow_inf_nan=False)).validate_python(value)
        except ValidationError:
            raise ValueError(f"{key}: kind {self.kind!r} needs {words}; got {value!r}") from None

    def _check_expected(self) -> None:
        key, words = ("class_report", "class report's") if self.is_of_class else ("published", "published")
        if self.kind == "ordering":
            if len(set(self.expected)) < max(2, len(self.expected)):
                raise ValueError(f"{key}: an ordering needs two or more names, each once")
        elif self.kind == "curve":
            xs, ys = zip(*self.expected, strict=True) if self.expected else ((), ())
            if len(xs) < 2 or any(left >= right for left, right in pairwise(xs)):
                raise ValueError(f"{key}: a curve needs two or more points, x ascending")
            if max(ys) == min(ys):
                raise ValueError(f"{key}: a flat curve has no range; claim its level instead")
        else:
            if self.kind == "proportion" and not 0 <= self.expected <= 1:
                raise ValueError(f"{key}: a proportion lies in 0 to 1; got {self.expected:g}")
            low, high = self.accepted_band()
            if not self.accept.band and low == high:
                raise ValueError(f"accept: {self.accept.key} of 0 is nothing; give a band")
            if not low <= self.expected <= high:
                raise ValueError(f"accept: {low:g} to {high:g} excludes the {words} {self.expected:g}")

    def accepted_band(self) -> tuple[float, float]:
        """Return the accepted values (low, high) of an effect, absolute or proportion, in the claim's unit."""
        if self.accept.band:
            return self.accept.band
        if self.accept.relative:
            ends = self.expected * (1 - self.accept.relative), self.expected * (1 + self.accept.relative)
        else:
            assert self.accept.factor is not None
            ends = self.expected / self.accept.factor, self.expected * self.accept.factor
        return min(ends), max(ends)


class PaperClaims(_Strict):
    """A paper and everything it claims that we test. `paper` is the slug."""

    paper: str = Field(description="the slug: the folder's name")
    title: str = Field(min_length=1, description="Title (Authors, Venue Year)")
    claims: tuple[Claim, ...]

    @model_validator(mode="after")
    def _whole(self) -> PaperClaims:
        if not self.claims:
            raise ValueError("claims: there are none; a paper needs at least one")
        repeated = [name for name, count in Counter(claim.id for claim in self.claims).items() if count > 1]
        if repeated:
            raise ValueError(f"claims: id {', '.join(map(repr, repeated))} is used more than once")
        if not any(claim.control for claim in self.claims):
            raise ValueError("claims: none has a 'control': what is broken on purpose, what must happen")
        return self

    def claim(self, claim_id: str) -> Claim:
        """Return the claim of that id. Raises NetreproError for an unknown one."""
        for claim in self.claims:
            if claim.id == claim_id:
                return claim
        raise NetreproError(
            f"{self.paper} has no claim {claim_id!r}", nearest(claim_id, [claim.id for claim in self.claims])
        )

    def table(self) -> pd.DataFrame:
        """Return one row for each claim, main claims first, for reading; orderings and curves are put in words."""
        return pd.DataFrame(
            [
                {
                    "claim": claim.id,
                    "says": claim.says,
                    "where": claim.where,
                    "kind": claim.kind,
                    "unit": claim.unit,
                    "published": readable(claim.published),
                    "class_report": readable(claim.class_report),
                    "source": claim.source.replace("_", " "),
                    "accepted": str(claim.accept),
                    "role": claim.role,
                    "decided_by": claim.decided_by.key if claim.decided_by else "not declared",
                    "control": claim.control or "",
                    "fixed": claim.fixed,
                    "note": claim.note,
                }
                for claim in self.main_first()
            ]
        )

    def main_first(self) -> list[Claim]:
        """Return the claims, main ones before details."""
        return sorted(self.claims, key=lambda claim: claim.role != "main")


def readable(value: Any) -> Any:
    """Put a published value into words for a table cell: numbers stay, an ordering becomes 'a > b', a curve its
    extent."""
    if not isinstance(value, list):
        return value
    if value and isinstance(value[0], str):
        return " > ".join(value)
    return f"{len(value)} points, x {value[0][0]:g} to {value[-1][0]:g}"


def claims_schema() -> str:
    """Return the JSON schema of claims.yaml, for editors; claims.schema.json beside this file holds it."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | PaperClaims.model_json_schema()
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def load_claims(slug: str) -> PaperClaims:
    """Read data/<slug>/claims.yaml. Raises NetreproError when it is missing, malformed or inconsistent."""
    path = data_dir(slug) / "claims.yaml"
    if not path.is_file():
        known = [file.parent.name for file in _claim_files()]
        raise NetreproError(f"no claims for {slug!r}: {_shown(path)} does not exist", nearest(slug, known))
    try:
        paper = _validated(path, _read_yaml(path))
    except RecursionError:
        raise NetreproError(f"{_shown(path)} cannot be read: lists too deep in each other", "mend the YAML") from None
    if paper.paper != path.parent.name:
        raise NetreproError(f"{_shown(path)}: paper is {paper.paper!r}", f"its folder asks for {path.parent.name!r}")
    return paper


def all_papers(problems: dict[str, str] | None = None) -> list[PaperClaims]:
    """Load every data/*/claims.yaml, in the notebooks' order; papers without a notebook last.

    problems : gets slug -> error text of a paper that cannot be read; if None, NetreproError is raised.
    """
    try:
        notebooks = {path.stem[3:]: path.name for path in notebooks_dir().glob("[0-9][0-9]_*.ipynb")}
    except NetreproError:  # an installed library has claims and no notebooks
        notebooks = {}
    slugs = [path.parent.name for path in _claim_files()]
    papers = []
    for slug in sorted(slugs, key=lambda slug: (notebooks.get(slug, "~"), slug)):
        try:
            papers.append(load_claims(slug))
        except NetreproError as error:
            if problems is None:
                raise
            problems[slug] = str(error)
    return papers


def _claim_files() -> list[Path]:
    return sorted(all_data().glob("*/claims.yaml"))


def _shown(path: Path) -> str:
    return str(path.relative_to(all_data().parent))


# libyaml's parser takes a tenth of the time; PyYAML can be built without it.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StrictLoader(_SafeLoader):
    """A loader that refuses equal keys and impossible values, with their line.

    PyYAML's own silently keeps the last of two equal keys, and raises any error for an impossible value.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError) as error:  # as the date 2026-13-45
            raise yaml.constructor.ConstructorError(
                problem=f"impossible value {str(node.value)[:40]!r} ({error})", problem_mark=node.start_mark
            ) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                raise yaml.constructor.ConstructorError(
                    problem=f"key {key!r} is given twice", problem_mark=node.value[index][0].start_mark
                )
        return super().construct_mapping(node, deep)


def _read_yaml(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark else ""
        raise NetreproError(f"{_shown(path)}{line}: {error.problem}", "mend the YAML there") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise NetreproError(f"{_shown(path)} cannot be read: {error}", "save it as YAML in UTF-8") from None


def _validated(path: Path, content: Any) -> PaperClaims:
    try:
        return PaperClaims.model_validate(content)
    except ValidationError as error:
        raise invalid_file(_shown(path), content, error, PaperClaims) from None


def invalid_file(file: str, content: Any, error: ValidationError, top: type[BaseModel]) -> NetreproError:
    """Make an error with one line for each mistake: file, claim, key, and the nearest valid word."""
    lines = []
    mistakes = error.errors(include_url=False)
    for mistake in mistakes:
        place = mistake["loc"]
        inner = [each for each in mistakes if each["loc"][: len(place)] == place and len(each["loc"]) > len(place)]
        if mistake["type"] == "too_short" and inner:
            continue  # an entry was refused, which pydantic reports a second time as missing
        if mistake["type"] == "extra_forbidden":
            valid = _model_at(top, place[:-1]).model_fields
            what, place = f"unknown key {place[-1]!r} ({nearest(str(place[-1]), valid)})", place[:-1]
        elif mistake["type"] == "missing":
            what, place = f"key {place[-1]!r} is missing", place[:-1]
        elif mistake["type"] == "literal_error":
            words = re.findall(r"'([^']+)'", mistake["ctx"]["expected"])
            what = f"unknown value {mistake['input']!r} ({nearest(str(mistake['input']), words)})"
        elif mistake["type"] == "value_error":
            what = str(mistake["ctx"]["error"])
        else:
            what = f"{mistake['msg'][0].lower()}{mistake['msg'][1:]}; got {mistake['input']!r}"
        lines.append(": ".join([file, *_where(content, place), what]))
    return NetreproError("\n".join(lines), f"{top.__module__}.{top.__name__} describes every key")


def _model_at(top: type[BaseModel], place: tuple) -> type[BaseModel]:
    """Find the model that reads the value at a place, by following the fields from the top."""
    model = top
    for part in place:
        if part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _where(content: Any, place: tuple) -> list[str]:
    """Put a place into words: ("claims", 0, "accept") is ["claim 'its-id'", "accept"]."""
    if len(place) < 2 or place[0] != "claims":
        return [str(part) for part in place]
    entry = content["claims"][place[1]]
    named = entry.get("id") if isinstance(entry, dict) else None
    return [f"claim {named!r}" if named else f"claim number {place[1] + 1}", *map(str, place[2:])]
