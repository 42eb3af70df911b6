"""A first lesson for code models: only what needs both agents is paid.

    python train.py @recipes/coder.args --reward examples/together.py:together --run together
    python train.py @recipes/coder.args --reward code --init together --run coder

`together` is c of the reward `code`, 0 to 1: the share of tests that the least useful part adds
(rewards.py). Text that is thrown away costs up to 30 % of c, in the proportion of `code`.
(Without this cost, main came to write on after its function. Up to half of its answers were cut
off.)

The reward `code` also pays for a program that is right alone. While most helpers are wrong, main
earns more alone, and stops calling before a helper becomes right (relative overgeneralisation).
Here a program that is right alone earns 0. A problem in which no pair cooperates yet teaches
nothing, because all returns of its group are equal. Afterwards `code` may teach the rest.
"""

from rewards import COOPERATION, SYNTAX, code


def together(item, responses):
    parts = code(item, responses)
    passed = parts["tests"]
    weight = COOPERATION if passed == 1.0 else 1.0 - passed  # of c in `code`
    c = parts["cooperation"] / weight
    metrics = {name: value for name, value in parts.items() if name.startswith("metric/")}
    return {"c": c, "text": c * (parts["syntax"] / SYNTAX - 1.0)} | metrics


together.maximum = 1.0
