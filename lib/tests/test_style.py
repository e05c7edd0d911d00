"""How figures look: what a reader sees at the ticks of an axis."""

import pytest

from netrepro.study.pictures import draw_bars, draw_published_level, say_not_measured
from netrepro.style import CURVES, PUBLISHED_GREY, SCHEMES, draw_published, is_empty, new_figure, save_figure


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.8, 9, {"1", "2", "3"}),
        (0.02, 300, {"0.1", "1", "100"}),
        (1e-5, 1e7, {"$\\mathdefault{10^{-5}}$", "0.001", "$\\mathdefault{10^{7}}$"}),
    ],
)
def test_a_logarithmic_axis_has_plain_numbers_and_powers_of_ten_only_far_out(low, high, expected):
    figure, axis = new_figure("title", "x", "y (s)", log_y=True)
    axis.set_ylim(low, high)
    figure.draw_without_rendering()
    labels = [tick.get_text() for minor in (False, True) for tick in axis.get_yticklabels(minor=minor)]
    assert expected <= set(labels)
    assert axis.get_xscale() == "linear"


def test_no_two_schemes_share_a_colour_and_none_has_that_of_published_points():
    colours = [look.colour.upper() for look in SCHEMES.values()]
    assert len(set(colours)) == len(colours)
    assert PUBLISHED_GREY.upper() not in colours


def published_only(axis):
    draw_published(axis, [1], [2])
    draw_published_level(axis, 3, "published")
    axis.axhline(1, color="#444444", label="target")
    axis.bar([1], [2], color=PUBLISHED_GREY)
    axis.scatter([], [], color=CURVES[0])
    axis.plot([], [], color=CURVES[0], label="ours")
    axis.axvspan(0, 1, color="#dddddd")


@pytest.mark.parametrize(
    ("draw", "empty"),
    [
        (lambda axis: None, True),
        (published_only, True),
        (lambda axis: say_not_measured(axis, "simulated"), True),
        (lambda axis: (published_only(axis), say_not_measured(axis, "simulated"), axis.text(0, 0, "link out")), True),
        (lambda axis: (axis.plot([1], [1], "o"), say_not_measured(axis, "simulated", "hardware ")), False),
        (lambda axis: draw_bars(axis, {"TCP": [1.0]}), False),
        (lambda axis: axis.scatter([1], [1]), False),
        (lambda axis: axis.fill_between([0, 1], [0, 1]), False),
        (lambda axis: axis.vlines([1], 0, 1), False),
        (lambda axis: axis.pcolormesh([[1, 2], [3, 4]]), False),
        (lambda axis: axis.imshow([[1, 2]]), False),
        (lambda axis: axis.annotate("ACK", (0, 0), (1, 1), arrowprops={"arrowstyle": "->"}), False),
    ],
)
def test_a_figure_without_anything_of_ours_is_empty_and_is_not_saved(draw, empty, tmp_path):
    figure, axes = new_figure("title", "x", "y (s)", columns=2)
    draw(axes[1])
    if any(text.get_gid() for text in axes[1].texts):
        say_not_measured(axes[0], "simulated")
    assert is_empty(figure) is empty
    (tmp_path / "figure.png").write_bytes(b"of an earlier run")
    assert save_figure(figure, tmp_path, "figure") is not empty
    assert sorted(path.name for path in tmp_path.iterdir()) == ([] if empty else ["figure.png", "figure.svg"])
