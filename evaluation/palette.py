"""Give pictures their colours: those of Okabe and Ito, which colour-blind readers can tell apart.

Their black is a grey here, which is also seen on a dark ground.
"""

import zlib
from collections.abc import Collection

COLORS = (
    "#0072b2",  # blue
    "#d55e00",  # vermilion
    "#009e73",  # green
    "#cc79a7",  # pink
    "#e69f00",  # orange
    "#56b4e9",  # sky
    "#f0e442",  # yellow
    "#606060",  # grey
)
LINES = tuple(color for color in COLORS if color != "#f0e442")  # yellow is faint on white
SALT = 1157323  # gives the schemes of code and of classes different colours


def scheme_colors(names: Collection[str], palette: tuple[str, ...] = COLORS) -> dict[str, str]:
    """Return the colour of each scheme, or group, which is the same in every picture and run.

    If two of a picture would share a colour, the second one takes the next that is free.
    """
    colors = {}
    for name in sorted(names):
        number = zlib.crc32(name.encode(), SALT) % len(palette)
        nearest = palette[number:] + palette[:number]
        free = [color for color in nearest if color not in colors.values()]
        colors[name] = (free or nearest)[0]
    return colors
