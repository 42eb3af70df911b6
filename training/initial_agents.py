"""Start agents from agents that were trained before (--init), with a new optimizer.

--init names a run or the folder of one agent, as peft or transformers writes it. A run's agent i
becomes agent i. If the run has one agent or one shared policy, it becomes every agent. Another base
and another rank or scale of the adapter are refused: they would load and be worth nothing.
"""

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
    is_run,
    read_args,
    read_summary,
    resume_command,
)


def agent_folders(names: list[str], team: TeamOptions) -> list[str]:
    """Return the folder that each agent starts from. Raise ValueError if one does not fit.

    names: the values of --init, one or one per agent.
    """
    agents = len(team.model)
    folders = []
    for agent, name in enumerate(each(names, agents)):
        folder = _folder(name, agent, agents)
        check_agent(folder, team.model[agent], team)
        folders.append(str(folder))
    if team.share and len({*folders}) > len({*team.model}):
        raise ValueError(
            "--init names several agents, and with --share there is one policy: "
            f"give one agent's folder, such as {folders[0]}"
        )
    return folders


def check_agent(folder: Path, model: str, team: TeamOptions) -> None:
    """Raise ValueError if an agent's folder does not hold what this team trains of a model."""
    adapter = is_adapter(folder)
    if adapter != (team.lora_rank > 0):
        fault = "an adapter: not with" if adapter else "a whole model:"
        raise ValueError(f"--init {folder} is {fault} --lora-rank 0")
    if not adapter:
        return
    config = adapter_config(folder)
    if (config["r"], config["lora_alpha"]) != (team.lora_rank, team.lora_alpha):
        raise ValueError(
            f"--init {folder} is an adapter of rank {config['r']} and scale "
            f"{config['lora_alpha']}, and this team's are of --lora-rank {team.lora_rank} and "
            f"--lora-alpha {team.lora_alpha}"
        )
    base = located(config["base_model_name_or_path"])
    check_base(fingerprint(base), model, folder)


def _folder(name: str, agent: int, agents: int) -> Path:
    """Return the folder of one agent, which --init names by its run or itself."""
    run = find_run(name)
    if not is_run(run):
        if is_adapter(run) or (run / "config.json").is_file():
            return run
        raise ValueError(
            f"--init {name}: no run (no {run / 'args.json'}) and no agent (no {ADAPTER}); "
            "give a run, or a folder such as RUN/agents/0"
        )
    flags = read_args(run)["args"]
    one_policy = flags["share"] and len(set(flags["model"])) == 1
    count = 1 if one_policy else flags["num_agents"]
    if count not in (1, agents):
        raise ValueError(
            f"--init {name}: it has {count} agents and this team {agents}; name a folder "
            f"for each, such as {run}/agents/0"
        )
    if not read_summary(run):
        raise ValueError(f"--init {name}: it is not finished: {resume_command(run)}")
    return agent_folder(run, agent if count > 1 else 0, flags)
