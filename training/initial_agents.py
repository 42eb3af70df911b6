"""Start agents from agents that were trained before (--init), with a new optimizer.

--init names a run or the folder of one agent, as peft or transformers writes it. A run's agent i
becomes agent i, and its agent 0 becomes every agent that the run lacks. Another base and another
rank or scale of the adapter are refused: they would load and be worth nothing.
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
from training.run_folder import check_base, find_run


def agent_folders(names: list[str], team: TeamOptions) -> list[str]:
    """Return the folder that each agent starts from. Raise ValueError if one does not fit.

    names: the values of --init, one or one per agent.
    """
    folders = []
    for agent, name in enumerate(each("--init", names, len(team.model))):
        folder = find_run(name)
        if (folder / "agents").is_dir():
            own = folder / "agents" / str(agent)
            folder = own if own.is_dir() else folder / "agents/0"
        check_agent(folder, team.model[agent], team)
        folders.append(str(folder))
    if team.share and len({*folders}) > len({*team.model}):
        raise ValueError(
            "--init names several agents, and with --share there is one policy: "
            f"give one agent's folder, such as {folders[0]}"
        )
    return folders


def check_agent(folder: Path, model: str, team: TeamOptions) -> None:
    """Raise ValueError if a folder does not hold an agent that this team trains of a model."""
    if is_adapter(folder):
        config = adapter_config(folder)
        trained = (config["r"], config["lora_alpha"])
        if trained != (team.lora_rank, team.lora_alpha):
            raise ValueError(
                f"--init {folder} is an adapter with --lora-rank and --lora-alpha {trained}, "
                f"not {(team.lora_rank, team.lora_alpha)}"
            )
        base = located(config["base_model_name_or_path"])
        check_base(fingerprint(base), model, folder)
    elif not (folder / "config.json").is_file():
        raise ValueError(f"--init {folder}: there is no run and no agent (no {ADAPTER})")
    elif team.lora_rank:
        raise ValueError(f"--init {folder} is a whole model: --lora-rank 0")
