"""Resolve the flags of train.py that were not given, and the agents that --init names.

`resolve` needs the flags alone, `resolve_bits` torch.
"""

import json
from pathlib import Path

from policies import Mistake
from policies.model_names import (
    ADAPTER,
    EMBEDDED,
    TeamOptions,
    adapter_config,
    fingerprint,
    is_adapter,
    located,
)
from tasks import of_agents
from training.flags import conflict, each
from training.plugins import task_class
from training.run_folder import check_base, find_run, has_agents, read_args

JOINTS = 4  # --joint from three agents on (docs/results/coop.md)
RATES = {"adapters": 1e-4, "full": 1e-5}  # --lr where the model's folder does not say it


def resolve(args) -> None:
    """Fill in what the flags alone decide. Raise ValueError if they do not go together."""
    if not args.model:
        model = of_agents(task_class(args.task).model, args.num_agents)
        args.model = [located(str(model or "tiny"))]
    if args.turns is None:
        args.turns = of_agents(task_class(args.task).turns, args.num_agents)
    args.model = each("--model", args.model, args.num_agents)
    rates = args.lr or [min(learning_rate(name, args.lora_rank > 0) for name in args.model)]
    args.lr = each("--lr", rates, args.num_agents)
    args.temperature = each("--temperature", args.temperature or [1.0], args.num_agents)
    args.template_arg = dict(args.template_arg or ())
    args.task_arg = dict(args.task_arg or ())
    args.freeze = sorted(set(args.freeze or ()))
    if args.joint == 1:
        args.joint = "aligned"  # it has two names
    if args.joint is None:
        args.joint = JOINTS if args.num_agents > 2 else "cross"
    if args.optimism is None:  # it trusts partners who learn
        learning = args.num_agents - len(args.freeze)
        args.optimism = float(learning >= 2 and args.joint != "aligned")
    if wrong := conflict(args):
        raise Mistake(wrong)


def learning_rate(name: str, adapters: bool) -> float:
    """Return --lr for a model's adapters or full copies. The model's folder may say it.

    A pretrained model bears a much smaller rate than an embedded one.
    """
    file = Path(name, "learning_rate.json")
    rates = json.loads(file.read_text("utf-8-sig")) if file.is_file() else RATES
    return rates["adapters" if adapters else "full"]


def resolve_bits(args) -> None:
    """Fill in --bits.

    Trained weights need 32, and the embedded models are too small to gain. A GPU that computes in
    bf16 takes 16. An older one and a CPU take 32.
    """
    if args.bits is not None:
        return
    args.bits = 32
    embedded = [Path(name).resolve().is_relative_to(EMBEDDED) for name in args.model]
    if args.lora_rank == 0 or all(embedded):
        return
    from policies.loading import device, has_bf16

    if has_bf16(device()):
        args.bits = 16


def agent_folders(names: list[str], team: TeamOptions) -> list[str]:
    """Return the folder that each agent starts from, with a new optimizer (--init).

    A name is that of a run, or the folder of one agent, as peft or transformers writes it. A run's
    agent i becomes agent i. Where it shared a policy, that becomes agent i. If the run has no agent
    i, its agent 0 does. Mistake: another base, or another rank or scale of the adapter. It would
    load and be worth nothing.
    """
    folders = []
    for agent, name in enumerate(each("--init", names, len(team.model))):
        folder = find_run(name)
        if has_agents(folder):
            models = read_args(folder)["args"]["model"]
            number = agent if agent < len(models) else 0
            own = folder / f"agents/{number}"
            first = models.index(models[number])  # by whom a shared policy is known
            folder = own if own.is_dir() else folder / f"agents/{first}"
        check_agent(folder, team.model[agent], team)
        folders.append(str(folder.resolve()))
    if team.share and len({*folders}) > len({*team.model}):
        raise Mistake(
            "--init names several agents, and with --share there is one policy: "
            f"give one agent's folder, such as {folders[0]}"
        )
    return folders


def check_agent(folder: Path, model: str, team: TeamOptions) -> None:
    """Raise ValueError if a folder does not hold an agent that this team trains of a model."""
    if is_adapter(folder):
        config = adapter_config(folder)
        needed = {
            "r": team.lora_rank,
            "lora_alpha": team.lora_alpha,
            "use_rslora": False,  # other scales of peft's
            "alpha_pattern": {},
        }
        trained = {name: config.get(name) or value for name, value in needed.items()}
        if trained != needed:
            raise Mistake(
                f"--init {folder} is an adapter with {trained}, and the team has {needed} "
                "(--lora-rank, --lora-alpha)"
            )
        if config.get("init_lora_weights", True) not in (True, False, "gaussian"):
            raise Mistake(  # pissa, olora: what the adapter starts from is subtracted from its base
                f"--init {folder} may have changed its base (init_lora_weights): make one whole "
                f"model of both, python examples/whole.py {folder} FOLDER, and name it as --model"
            )
        base = located(config["base_model_name_or_path"])
        check_base(fingerprint(base), model, folder)
    elif not (folder / "config.json").is_file():
        raise Mistake(f"--init {folder}: there is no run and no agent (no {ADAPTER})")
    elif team.lora_rank:
        raise Mistake(f"--init {folder} is a whole model: --lora-rank 0")
