"""The colours of pictures as colour-blind readers see them: python -m pytest tests/test_palette.py

The simulation of full protanopia and deuteranopia is that of Machado, Oliveira and Fernandes, 2009.
"""

import itertools

import numpy as np
import pytest

from evaluation.palette import COLORS, scheme_colors

SIGHTS = [  # linear RGB -> linear RGB
    np.eye(3),
    [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
]
TO_XYZ = np.array([[0.434, 0.376, 0.189], [0.213, 0.715, 0.072], [0.018, 0.109, 0.873]])  # white: 1
SCHEMES = [
    {"other", "unused", "wrapper", "fallback", "strategy filter", "coordinator", "decorator"},
    {"nothing", "overlap", "all by one", "halves", "alternation", "mixed"},
]


def lab(color: str, sight) -> np.ndarray:
    """A colour in CIELAB, as a sight sees it."""
    values = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(values < 0.04, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(TO_XYZ @ np.clip(sight @ linear, 0, 1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def nearest(colors) -> float:
    """The smallest distance of two colours to any sight. 2.3 can just be noticed."""
    distances = []
    for sight, (one, other) in itertools.product(SIGHTS, itertools.combinations(colors, 2)):
        distances.append(np.linalg.norm(lab(one, np.array(sight)) - lab(other, np.array(sight))))
    return min(distances)


def test_every_two_colors_differ_to_every_reader():
    assert nearest(["#ff7f0e", "#2ca02c"]) < 5  # matplotlib's orange and green: it can fail
    assert nearest(COLORS) > 15


@pytest.mark.parametrize("names", SCHEMES)
def test_a_scheme_has_one_color_whatever_stands_beside_it(names):
    colors = scheme_colors(names)
    assert len(set(colors.values())) == len(names)
    for name in names:
        assert scheme_colors({name}) == {name: colors[name]}
