"""The naive loop is an oracle for the trainer: python -m pytest tests/examples/test_loop.py"""

import torch
from helpers import checkpoint_of, train_run

from examples import loop


def test_three_steps_end_with_the_trainer_s_weights(tmp_path, monkeypatch):
    """The constants are smaller than the flags' defaults, so that it takes seconds."""
    monkeypatch.setattr(loop, "STEPS", 3)
    monkeypatch.setattr(loop, "BATCH", 3)
    monkeypatch.setattr(loop, "G", 4)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    team = loop.train()
    argv = "--max-steps 3 --batch-size 3 --num-generations 4 --eval-limit none --logger none"
    run = train_run(tmp_path / "run", argv)
    torch.set_num_threads(threads)
    trained = checkpoint_of(run)["state_dict"]
    own = {f"team.{name}": p for name, p in team.named_parameters() if p.requires_grad}
    assert own.keys() == trained.keys()
    for name, parameter in own.items():
        assert torch.equal(parameter, trained[name]), name
