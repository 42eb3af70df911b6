"""Compare recipes/comlrl.args and trl.args with the defaults of the installed packages.

bench/.venv/bin/python -m bench.peers
"""

import dataclasses
from pathlib import Path

from comlrl.trainers.reinforce import MAGRPOConfig
from trl import GRPOConfig

import train

ROOT = Path(__file__).resolve().parent.parent
SAMPLING = {name: name for name in ("num_generations", "temperature", "top_p", "top_k")}
COMLRL = SAMPLING | {
    "num_agents": "num_agents",
    "max_new_tokens": "max_new_tokens",
    "num_turns": "turns",
    "discount": "gamma",
    "joint_mode": "joint",
    "rollout_buffer_size": "batch_size",
    "agent_learning_rate": "lr",
}
TRL = SAMPLING | {
    "max_completion_length": "max_new_tokens",
    "beta": "kl_coef",
    "learning_rate": "lr",
    "lr_scheduler_type": "lr_schedule",
    "warmup_steps": "warmup_steps",
    "max_grad_norm": "grad_clip",
}


def recipe(name: str, config: type, fields: dict) -> tuple[train.Args, dict]:
    """Return a recipe's flags and a config's defaults, of which `fields` are equal."""
    file = ROOT / f"recipes/{name}.args"
    flags = train.parse([f"@{file}"])
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    for field, flag in fields.items():
        value = getattr(flags, flag)
        assert (value[0] if flag == "lr" else value) == defaults[field], field
    epochs = defaults["num_train_epochs"]
    assert f"# Its num_train_epochs is {epochs:g}" in file.read_text(encoding="utf-8")
    return flags, defaults


def check_comlrl() -> None:
    flags, defaults = recipe("comlrl", MAGRPOConfig, COMLRL)
    assert flags.advantage == "std"
    assert defaults["advantage_mode"] == "mean"
    assert defaults["advantage_normalization"]
    assert defaults["train_batch_size"] is None  # as the buffer
    assert not defaults["reference_kl_enabled"]
    assert defaults["early_termination_threshold"] == -0.2


def check_trl() -> None:
    flags, defaults = recipe("trl", GRPOConfig, TRL)
    assert (flags.advantage, defaults["scale_rewards"]) == ("std", "group")
    assert (flags.normalize, defaults["loss_type"]) == ("token", "dapo")
    assert not defaults["mask_truncated_completions"]
    assert defaults["num_iterations"] == 1
    assert defaults["bf16"] is None  # which is True there
    assert defaults["gradient_accumulation_steps"] == 1
    responses = flags.batch_size * flags.num_generations
    assert responses == defaults["per_device_train_batch_size"]


if __name__ == "__main__":
    check_comlrl()
    check_trl()
    print("the recipes have the packages' defaults")
