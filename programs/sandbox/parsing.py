"""Parse the text of a program, in any thread."""

import ast
import threading
import warnings

# Python warns about the style of many programs ("invalid escape sequence"). The filter goes by the
# file name that they are compiled under, because catch_warnings is not thread-safe.
SOURCE = "<response>"
warnings.filterwarnings("ignore", module=SOURCE)

# While Python builds a syntax tree, it counts the depth in one place for all threads. If a second
# thread builds one while the first one collects garbage, the first one gets a SystemError
# (python/cpython#106905). Rewards run in threads.
_BUILDING = threading.RLock()

REFUSED = (SyntaxError, ValueError, RecursionError, MemoryError)  # what the parser may raise


def syntax_tree(source: str) -> ast.Module:
    """Return what ast.parse returns, in any thread. Raise one of REFUSED."""
    with _BUILDING:
        return ast.parse(source, SOURCE)  # noqa: TID251
