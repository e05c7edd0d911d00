"""Sliders, menus and text boxes in a notebook; after a change the simulator runs the setting and draws it again."""

from __future__ import annotations

from html import escape
from typing import Any

import ipywidgets as widgets
from IPython.display import HTML, display

from netrepro.errors import NetreproError
from netrepro.study import TEXT, Study, run_once

READOUT = ".6"  # six digits at most, without trailing zeros (d3-format)


def explore(study: Study) -> widgets.Widget:
    """Return the widgets that a Study's `play` declares. Raises NetreproError for a study without `play`."""
    if study.play is None:
        raise NetreproError(f"{study.slug} has nothing to play with", "give its Study play=Play(...)")
    play, controls = study.play, {}
    controls["case"] = widgets.Dropdown(options=list(play.cases), description="case")
    for name, values in play.sliders.items():
        start, label = _start(study, name), {"description": name.replace("_", " ")}
        if values == TEXT:
            controls[name] = widgets.Textarea(start, layout={"width": "40em", "height": "6em"}, **label)
        elif isinstance(values, list):
            controls[name] = widgets.Dropdown(options=values, value=start, **label)
        else:
            kind = widgets.IntSlider if isinstance(start, int) else widgets.FloatSlider
            label |= {} if isinstance(start, int) else {"readout_format": READOUT}
            controls[name] = kind(start, **dict(zip(("min", "max", "step"), values, strict=True)), **label)
        controls[name].style.description_width = "initial"

    def redraw(case: str, **changed: Any) -> None:
        own = {name: value for name, value in changed.items() if hasattr(study.case(case), name)}
        for name in changed:
            controls[name].disabled = name not in own  # the case's part has no such field
        try:
            display(play.draw(run_once(study, case, play.seconds, **own), case))
        except NetreproError as refused:  # such as half-written rules in a text box
            display(HTML(f"<pre>{escape(str(refused))}</pre>"))

    return widgets.VBox([widgets.HBox(list(controls.values())), widgets.interactive_output(redraw, controls)])


def _start(study: Study, name: str) -> Any:
    """Return a field's value in the study's setting, or in the first part that has it."""
    settings = [study.setting, *(part.setting for part in study.parts)]
    return next(getattr(setting, name) for setting in settings if hasattr(setting, name))
