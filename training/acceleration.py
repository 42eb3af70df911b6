"""The door to fast/, which may be deleted: then all models run the plain way."""

from collections.abc import Iterable

from policies.shared_model import SharedModel


def accelerate(bases: Iterable[SharedModel]) -> None:
    """Let the models that fast/ knows run the fast way."""
    try:
        import fast
    except ModuleNotFoundError:
        return
    fast.accelerate(bases)
