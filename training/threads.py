"""Call a user's function in threads, and end the run where it fails or hangs."""

from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from threading import Thread

from policies import Mistake

LIMIT = 300  # seconds until a function that does not answer ends the run
THREADS = 16


def in_threads(name: str, function: Callable, calls: Collection) -> list:
    """Return function(item, texts) of each call. An error's note has what was given.

    The threads are daemons, unlike those of ThreadPoolExecutor: a call that hangs does not keep the
    process. After an error the calls that have not begun are not made.
    """
    futures: dict[Future, tuple] = {Future(): call for call in calls}
    left = iter([*futures.items()])  # each thread takes the next one

    def work() -> None:
        for future, call in left:
            try:
                future.set_result(function(*call))
            except BaseException as error:
                future.set_exception(error)

    for _ in range(THREADS):
        Thread(target=work, daemon=True).start()
    answers = []
    for future, (item, texts) in futures.items():
        try:
            if not wait([future], LIMIT).done:
                raise Mistake(f"{name} did not answer within {LIMIT} s")
            answers.append(future.result())
        except BaseException as error:
            list(left)  # nothing is left
            if isinstance(error, SystemExit):
                error = Mistake(f"{name} called sys.exit")
            error.add_note(f"({name}, for item {item!r} and responses {texts!r})")
            raise error
    return answers
