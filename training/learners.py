"""--init: agents start as they were trained before, with a new optimizer: a curriculum.

It names a run, whose agent i becomes agent i (a run of one agent, or of one shared policy: every
agent), or the folder of one agent, as peft or transformers writes it. What would load and be worth
nothing is refused: another base, another rank or scale of the adapter.
"""

import sys
from pathlib import Path

from policies.finding import ADAPTER, adapter_config, base_of, fingerprint, is_adapter
from training.flags import each
from training.folder import agent_folder, check_base, has_agents, read_args, run_folder

FULL = "config.json"  # of a whole model
SCALE = ("r", "lora_alpha", "use_rslora", "alpha_pattern")  # what an adapter's output is scaled by


def agent_folders(args) -> list[str]:
    """The folder that each agent starts from; ValueError where --init names none that fits."""
    named = enumerate(each(args.init, args.num_agents))
    folders = [_folder(name, agent, args) for agent, name in named]
    for folder in folders:
        adapter = is_adapter(folder)
        if adapter != (args.lora_rank > 0):
            kind = "an adapter: not with" if adapter else "a whole model:"
            raise ValueError(f"--init {folder} is {kind} --lora-rank 0")
        found = {key: adapter_config(folder).get(key) or 0 for key in SCALE} if adapter else {}
        if adapter and list(found.values()) != [args.lora_rank, args.lora_alpha, 0, 0]:
            own = f"--lora-rank {args.lora_rank} and --lora-alpha {args.lora_alpha}"
            message = f"an adapter of {found}, and this team's are of {own}"
            raise ValueError(f"--init {folder} is {message}")
    if args.share and len({*zip(args.model, folders, strict=True)}) > len({*args.model}):
        message = f"with --share there is one policy: give one agent's folder, such as {folders[0]}"
        raise ValueError(f"--init names several agents, and {message}")
    for folder, name in zip(folders, args.model, strict=True):
        check_base(_trained_on(folder), name, folder)
    return list(map(str, folders))


def _folder(name: str, agent: int, args) -> Path:
    run = run_folder(name)
    if not (run / "args.json").is_file():
        if is_adapter(run) or (run / FULL).is_file():
            return run
        message = f"no run (no {run / 'args.json'}) and no agent (no {ADAPTER})"
        raise ValueError(f"--init {name}: {message}; give a run, or a folder such as RUN/agents/0")
    flags = read_args(run)["args"]
    one = flags.get("share") and len(set(flags["model"])) == 1
    count = 1 if one else flags["num_agents"]
    if count not in (1, args.num_agents):
        message = f"it has {count} agents and this team {args.num_agents}; name a folder for each"
        raise ValueError(f"--init {name}: {message}, such as {run / 'agents' / '0'}")
    folder = agent_folder(run, agent if count > 1 else 0, flags)
    if not has_agents(run, flags):
        raise ValueError(f"--init {name}: it is not finished: python train.py --resume {run}")
    return folder


def load(team, args) -> None:
    """Loads the agents of args.init, one folder each; ValueError where one is of another base."""
    from policies.loading import load_agent

    for agent, folder in enumerate(map(Path, args.init)):
        trained = _trained_on(folder)
        # Once more: a model of the hub's is on this machine only now.
        check_base(trained, args.model[agent], folder)
        if args.lora_rank and trained is None:
            message = f"nothing in {folder} tells whether it was trained on {args.model[agent]}"
            print(f"warning: {message}", file=sys.stderr)
        load_agent(team.base_of[agent], agent, folder, args.trust_remote_code)


def _trained_on(folder: Path) -> str | None:
    """Fingerprint of the model that an agent was trained on; None where nothing tells it."""
    run = folder.resolve().parent.parent
    if folder.resolve().parent.name == "agents" and (run / "args.json").is_file():
        record = read_args(run)
        return record.get("bases", {}).get(record["args"]["model"][int(folder.resolve().name)])
    if not is_adapter(folder):
        return None
    name = base_of(folder)
    here = name.endswith(".gguf") or (Path(name) / FULL).is_file() or is_adapter(name)
    return fingerprint(name) if here else None
