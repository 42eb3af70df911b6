"""The door to policies/fast/, which may be deleted: then all models run the plain way."""

from collections.abc import Iterable

from policies.shared_model import SharedModel


def accelerate(bases: Iterable[SharedModel]) -> None:
    """Let the models that policies/fast/ knows run the fast way."""
    try:
        import policies.fast
    except ModuleNotFoundError:
        return
    policies.fast.accelerate(bases)
