"""Call a user's function in threads, and end the run where it fails or hangs."""

import multiprocessing
from collections.abc import Callable, Collection
from multiprocessing.pool import ThreadPool

from policies import Mistake

LIMIT = 300  # seconds until a function that does not answer ends the run
THREADS = 16


def in_threads(name: str, function: Callable, calls: Collection) -> list:
    """Return function(item, texts) of each call. An error's note has what was given.

    The pool's threads end with the process, unlike those of ThreadPoolExecutor, so a call that
    hangs does not keep it. One that calls sys.exit ends its thread, and does not answer either.
    After an error the calls that have not begun are not made.
    """
    answers = []
    with ThreadPool(THREADS) as pool:
        results = pool.imap(lambda call: function(*call), calls)
        for item, texts in calls:
            try:
                answers.append(results.next(LIMIT))
            except Exception as error:
                if isinstance(error, multiprocessing.TimeoutError):
                    error = Mistake(f"{name} did not answer within {LIMIT} s")
                error.add_note(f"({name}, {quoted(item, texts)})")
                raise error
    return answers


def quoted(item: dict, texts: list) -> str:
    """Return the words of an error that say what a function was given."""
    return f"for item {item!r:.300} and responses {texts!r:.300}"
