"""Start agents from agents that were trained before (--init), with a new optimizer.

--init names a run or the folder of one agent, as peft or transformers writes it. A run's agent i
becomes agent i. If the run has one agent or one shared policy, it becomes every agent. Another base
and another rank or scale of the adapter are refused: they would load and be worth nothing. So is
an adapter that began by changing its base (PiSSA, OLoRA, LoftQ, CorDA).
"""

import sys
from pathlib import Path

from policies.model_names import (
    ADAPTER,
    TeamOptions,
    adapter_config,
    fingerprint,
    is_adapter,
    located,
)
from training.flags import each
from training.run_folder import (
    agent_folder,
    check_base,
    find_run,
    read_args,
    read_summary,
    resume_command,
)

FULL = "config.json"  # of a whole model
# An adapter's keys for its scale, and for the tokens from which on it acts.
SCALE = ("r", "lora_alpha", "use_rslora", "alpha_pattern", "alora_invocation_tokens")
STARTS = (True, False, "gaussian", "eva", "orthogonal", "mica")  # that leave the base as it is


def agent_folders(names: list[str], team: TeamOptions) -> list[str]:
    """Return the folder that each agent starts from. Raise ValueError if one does not fit.

    names: the values of --init, one or one per agent.
    """
    agents = len(team.model)
    folders = [_folder(name, agent, agents) for agent, name in enumerate(each(names, agents))]
    for folder in folders:
        check_shape(folder, team)
    starts = set(zip(team.model, folders, strict=True))
    if team.share and len(starts) > len(set(team.model)):
        raise ValueError(
            "--init names several agents, and with --share there is one policy: "
            f"give one agent's folder, such as {folders[0]}"
        )
    return [str(folder) for folder in folders]


def check_shape(folder: Path, team: TeamOptions) -> None:
    """Raise ValueError if an agent's folder does not hold what this team trains."""
    adapter = is_adapter(folder)
    if adapter != (team.lora_rank > 0):
        fault = "an adapter: not with" if adapter else "a whole model:"
        raise ValueError(f"--init {folder} is {fault} --lora-rank 0")
    if not adapter:
        return
    config = adapter_config(folder)
    scale = {key: config.get(key) or 0 for key in SCALE}
    if list(scale.values()) != [team.lora_rank, team.lora_alpha, 0, 0, 0]:
        raise ValueError(
            f"--init {folder} is an adapter of {scale}, and this team's are of "
            f"--lora-rank {team.lora_rank} and --lora-alpha {team.lora_alpha}"
        )
    start = config.get("init_lora_weights", True)
    if start not in STARTS:
        raise ValueError(
            f"--init {folder} is an adapter that changed its base at its start ({start}): "
            "python examples/whole.py merges it into a model"
        )


def _folder(name: str, agent: int, agents: int) -> Path:
    """Return the folder of one agent, which --init names by its run or itself."""
    run = find_run(name)
    if not (run / "args.json").is_file():
        if is_adapter(run) or (run / FULL).is_file():
            return run
        raise ValueError(
            f"--init {name}: no run (no {run / 'args.json'}) and no agent (no {ADAPTER}); "
            "give a run, or a folder such as RUN/agents/0"
        )
    flags = read_args(run)["args"]
    one_policy = flags.get("share") and len(set(flags["model"])) == 1
    count = 1 if one_policy else flags["num_agents"]
    if count not in (1, agents):
        raise ValueError(
            f"--init {name}: it has {count} agents and this team {agents}; name a folder "
            f"for each, such as {run}/agents/0"
        )
    if not read_summary(run):
        raise ValueError(f"--init {name}: it is not finished: {resume_command(run)}")
    return agent_folder(run, agent if count > 1 else 0, flags)


def load(team, folders: list[str]) -> None:
    """Load the agents, one folder each. Raise ValueError if one has another base."""
    from policies.loading import load_agent

    options = team.options
    for agent, folder in enumerate(map(Path, folders)):
        trained = _trained_on(folder)
        check_base(trained, options.model[agent], folder)
        if options.lora_rank and trained is None:
            print(
                f"warning: nothing in {folder} tells whether it was trained on "
                f"{options.model[agent]}",
                file=sys.stderr,
            )
        load_agent(team.base_of[agent], agent, folder)


def _trained_on(folder: Path) -> str | None:
    """Return the fingerprint of the model that an agent was trained on, None if unknown."""
    path = folder.resolve()
    run = path.parent.parent
    if path.parent.name == "agents" and (run / "args.json").is_file():
        record = read_args(run)
        models = {str(agent): model for agent, model in enumerate(record["args"]["model"])}
        if path.name in models:  # not a copy of the user's
            return record["bases"].get(models[path.name])
    if not is_adapter(folder):
        return None
    name = located(adapter_config(folder).get("base_model_name_or_path") or "")
    return fingerprint(name) if (Path(name) / FULL).is_file() else None
