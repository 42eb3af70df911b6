"""Responses of models, each with a test that the function aux of the response has to pass.

A line "=== name: test" stands above each response. Without a test it is EVEN. PLAIN is the function
that most of them write. A response's author may not bind `solve`, the partner's function.
"""

from blocks import blocks

PLAIN = "def aux(x):\n    return x % 2 == 0"
EVEN = "assert aux(2) and not aux(3)"  # what PLAIN passes

RESPONSES = r'''
=== fence
Sure! Here's the helper:

```python
PLAIN
```
It's (very) short.
=== fence not closed
```py
PLAIN
=== fence not opened
PLAIN
```
It's short.
=== tilde fence
So:
~~~python
PLAIN
~~~
Done.
=== two fences
```
def aux(x):
    return True
```
or better
```
PLAIN
```
=== prose
Now
PLAIN
ok?
=== a fence in a docstring
It's:
```python
def aux(x):
    """So:
    ```
    aux(2)
    ```
    """
    return x % 2 == 0
```
Bob's
=== a docstring at the margin
Now
def aux(x):
    """Even?
For example:
>>> aux(2)
"""
    return x % 2 == 0
ok?
=== a header in lines: assert aux(3) == [3]
So
def aux(
    x: list[int],
    k: int = (1),
) -> list[int]:
    return [
x]
ok
=== a binding in prose
sum = 6
```python
def aux(x):
    return sum([x]) % 2 == 0
```
=== a binding in an output
```python
def aux(x):
    return sum([x]) % 2 == 0
```
Output:
```
sum = 6
```
=== a function in a text fence
```python
PLAIN
```
```text
def aux(x):
    return True
```
=== a bash fence
```python
PLAIN
```
```bash
aux = 3
```
=== two Python fences: assert aux(2.5) == 2
First
```python
import math
```
then
```python
def aux(x):
    return math.floor(x)
```
=== a bare fence
```
PLAIN
```
aux = 3
=== a fence closed on the last line
```python
PLAIN```
It's short.
=== a tag
<answer>
PLAIN
</answer>
=== truncated after
PLAIN

def test_aux():
    assert aux(
=== truncated rewrite
PLAIN

def aux(x):
    return [x for
=== else, and a cut: assert aux(0) == 2
F = 0
if F:
    T = 1
else:
    T = 2
def aux(x):
    return T
print(aux(
=== elif, and a cut: assert aux(0) == 2
F = 0
T = 1
if F > 1:
    T = 3
elif F < 1:
    T = 2
def aux(x):
    return T
print(aux(
=== except and finally, and a cut: assert aux(0) == 2
T = 0
try:
    T = 1 / 0
except ZeroDivisionError:
    T = 1
finally:
    T += 1
def aux(x):
    return T
print(aux(
=== finally in prose
PLAIN
finally we return it
else it fails.
=== a stub before it
def aux(x):
    pass

PLAIN
=== two statements on a line: assert aux(0) == [1, 2]
T = [1]; T.append(2)
def aux(x): return T
=== a definition in an if
if True:
    def aux(x):
        return x % 2 == 0
=== the partner's function
PLAIN

def solve(xs):
    return aux(xs)
=== the partner's import
from partner import solve


PLAIN
=== an import of itself
PLAIN

from my_module import aux
print(aux(2))
=== a class: assert aux(3).x == 3
class aux:
    def __init__(self, x):
        self.x = x
=== what it needs: assert aux('a') == 6 and aux(1) == 4
LIMIT = 3
TABLE = {}
TABLE.update(a=LIMIT)
for i in range(2):
    TABLE[i] = i
class Box:
    size = LIMIT
def inner(x):
    return Box.size + x

def aux(x):
    return inner(TABLE[x])
=== an example
PLAIN

result = aux(3)
print(result)
assert aux(3), 'odd'
=== input for ever
PLAIN
while True:
    print(aux(input()))
=== a function in a string that is cut
PLAIN

NOTE = """So:
def aux(x):
    return True
=== an import and a constant of its name
PLAIN
from math import sqrt as aux
aux = None
=== exit before it
import sys
print('usage')
sys.exit()
PLAIN
'''


def cases():
    """Return (response, test) by name."""
    table = {
        "indented": ("    def aux(x):\n        return x % 2 == 0\n", EVEN),
        "carriage returns": ("```python\r\ndef aux(x):\r\n    return x % 2 == 0\r\n```", EVEN),
        "a long fence": (f"```python\n{PLAIN}\n```\n{'word ' * 4_001}", EVEN),
    }
    for head, response in blocks(RESPONSES):
        name, _, test = head.partition(": ")
        table[name] = (response.replace("PLAIN", PLAIN), test or EVEN)
    return table


CASES = cases()
