"""A first lesson for code models: paid is only what needs both. `together` is the c of the code
reward, what the least useful part adds to the tests passed (rewards.py), from 0 to 1; of
that, up to 30 % are taken back for text that is thrown away, in the proportion of `code`. (Without
this, main came to write on after its function, until up to half of its answers were cut off.)

The reward `code` also pays for a program that is right alone. While most helpers are wrong, main
earns more alone, and stops calling before a helper becomes right (relative overgeneralisation).
Here a program that is right alone earns 0, and a problem in which no pair cooperates yet teaches
nothing, because all returns of its group are equal. Afterwards `code` may teach the rest:

    python train.py @recipes/coder.args --reward examples/together.py:together --run together
    python train.py @recipes/coder.args --reward code --init together --run coder
"""

from rewards import COOPERATION, SYNTAX, code


def together(item, responses):
    parts = code(item, responses)
    passed, paid = parts["tests"], parts["cooperation"]
    c = paid / (COOPERATION if passed == 1.0 else 1.0 - passed)
    metrics = {name: value for name, value in parts.items() if name.startswith("metric/")}
    return {"c": c, "text": c * (parts["syntax"] / SYNTAX - 1.0)} | metrics


together.maximum = 1.0
