"""Call a user's functions in threads, with a limit on the seconds that each may take.

So a reward, `feedback` and `advance` may be called at once. What they share needs a lock.
"""

import contextlib
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait

TIMEOUT = 300.0  # seconds until a function that neither answers nor gets on ends the run
RUNNING: set[object] = set()  # the calls that threads are at work on


def noted(function: Callable, *arguments):
    """Return function(*arguments). The call is in RUNNING until then."""
    call = object()
    RUNNING.add(call)
    try:
        return function(*arguments)
    finally:
        RUNNING.discard(call)


class Threads:
    """As many threads as Python finds right for this machine's cores.

    progress: a number that grows while functions get on, such as that of the programs that the
    sandbox has started. Each program has limits of its own, and a call may need many.
    """

    def __init__(self, progress: Callable[[], int]):
        self.progress = progress
        self.pool = ThreadPoolExecutor()

    def call(self, function: Callable, calls: Iterable[tuple]) -> Generator[Future, None, None]:
        """Call function(*arguments) for each of the calls. Yield the answers in order.

        An answer that is not done by then is late.
        """
        futures = [self.pool.submit(noted, function, *arguments) for arguments in calls]
        try:
            for future in futures:
                seen = None
                while not future.done() and (now := self.progress()) != seen:
                    seen = now
                    wait([future], timeout=TIMEOUT)
                yield future
        finally:  # an error or a signal does not wait for the calls that have not begun
            for future in futures:
                future.cancel()

    def map(self, name: str, function: Callable, items: list[dict], texts: list[list[str]]) -> list:
        """Return function(item, texts) of each joint response. RuntimeError: one is late."""
        calls = list(zip(items, texts, strict=True))
        answers = []
        with contextlib.closing(self.call(function, calls)) as futures:
            for (item, responses), future in zip(calls, futures, strict=True):
                if not future.done():
                    raise RuntimeError(
                        f"{name} did not answer within {TIMEOUT:.0f} s, for item {item!r} and "
                        f"responses {responses!r}"
                    )
                answers.append(future.result())
        return answers
