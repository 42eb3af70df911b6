"""Call a user's functions in threads, with a limit on the seconds that each may take.

So a reward, `feedback` and `advance` may be called at once. Shared values need a lock. Coroutine
functions run in one event loop, all calls of a turn at once.
"""

import asyncio
import contextlib
import functools
import inspect
import threading
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


async def awaited(function: Callable, *arguments):
    """Return what a user's coroutine function returns. RuntimeError: it called sys.exit."""
    try:
        return await function(*arguments)
    except SystemExit as error:  # it would end the event loop
        raise RuntimeError(f"it raised SystemExit: {error}") from error


class Threads:
    """Threads, as many as Python finds right for this machine's cores.

    `progress` returns a number that grows while functions get on, such as the number of programs
    that the sandbox has started. Each program has limits of its own, and a call may need many.
    """

    def __init__(self, progress: Callable[[], int]):
        self.progress = progress
        self.pool = ThreadPoolExecutor()

    @functools.cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of coroutine functions, which runs in a thread of its own."""
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        return loop

    def submit(self, function: Callable, arguments: tuple) -> Future:
        if inspect.iscoroutinefunction(function):
            return asyncio.run_coroutine_threadsafe(awaited(function, *arguments), self.loop)
        return self.pool.submit(noted, function, *arguments)

    def call(self, function: Callable, calls: Iterable[tuple]) -> Generator[Future, None, None]:
        """Call function(*arguments) for each of the calls. Yield the answers in order.

        An answer that is not done by then is late.
        """
        futures = [self.submit(function, arguments) for arguments in calls]
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
