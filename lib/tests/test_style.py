"""How figures look: what a reader sees at the ticks of an axis."""

import pytest

from netrepro.style import PUBLISHED_GREY, SCHEMES, new_figure


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
