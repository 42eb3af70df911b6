"""Call a user's function in threads, and end the run where it fails or hangs."""

from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from threading import Thread

from policies import Mistake

LIMIT = 300  # seconds until a function that does not answer ends the run
THREADS = 16


def in_threads(name: str, function: Callable, calls: Collection) -> list:
    """Return function(item, texts) of each call. An error's note has what was given.

    The threads end with the process, unlike those of ThreadPoolExecutor, so a call that hangs does
    not keep it. After an error the calls that have not begun are not made. (ThreadPool of
    multiprocessing does all this too, but takes 50 ms to end.)
    """
    futures: list[Future] = [Future() for _ in calls]
    left = iter([*zip(futures, calls, strict=True)])  # each thread takes the next one

    def work() -> None:
        for future, call in left:
            try:
                future.set_result(function(*call))
            except SystemExit as error:  # it would end this process without a word
                future.set_exception(Mistake(f"{name} called sys.exit({error})"))
            except BaseException as error:  # else nobody would hear of it
                future.set_exception(error)

    for _ in range(THREADS):
        Thread(target=work, daemon=True).start()
    for future, (item, texts) in zip(futures, calls, strict=True):
        try:
            if not wait([future], LIMIT).done:
                raise Mistake(f"{name} did not answer within {LIMIT} s")
            future.result()
        except BaseException as error:
            list(left)  # nothing is left
            error.add_note(f"({name}, {quoted(item, texts)})")
            raise
    return [future.result() for future in futures]


def quoted(item: dict, texts: list) -> str:
    """Return the words of an error that say what a function was given."""
    return f"for item {item!r:.300} and responses {texts!r:.300}"
