"""Compare how much this project's trainer learns with comlrl's and TRL's, on `coop`.

bench/.venv/bin/python -m bench.learning [--only magrpo-aligned ours-aligned] [--report]

All train adapters of rank 16 on every linear layer of the embedded model, with the same problems in
the same order, the same reward, and as many samples: 60 steps of 12 problems, 8 responses of each
agent, 96 tokens (192 of one agent), temperature 1. Each contender tries three rates on one seed.
The best on dev problems trains with other seeds, and this project's held-out evaluation judges. A
run has a folder in runs/learning/. The same command goes on with what is missing.

A contender's name says what it is:

ours-aligned, ours-default, ours-single
magrpo-aligned, magrpo-cross   comlrl's trainer as released, advantages not divided by the deviation
    -std     divided, which is its default
    -end     the last token of a group's longest response is trained, too
    -pad     what follows a response's end is not trained
    -clip    the norm of an agent's gradient is cut at 1
    -adam    AdamW without its weight decay
iac, maac                      comlrl's actor-critic trainers: a critic each, and one for all
trl-single                     GRPOTrainer, one agent
"""

import argparse
import json
import random
import resource
import subprocess
import sys
from functools import cache
from pathlib import Path

from bench import common  # first: it says how many threads there are

# isort: split
import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from magrpo import step_problems
from policies.model_names import EMBEDDED
from rewards import code, total
from tasks import Coop

STEPS = 60
BATCH = 12  # problems of a step
G = 8  # responses of each agent to a problem
TOKENS = 96  # of a response. One agent writes both halves.
RATES = ("3e-4", "1e-3", "3e-3")
DEV_SEED = 10
SEEDS = (0, 1, 2)
RUNS = Path("runs/learning")
OURS = {
    "ours-aligned": "--joint aligned --optimism 0 --lr-schedule constant",
    "ours-default": "",
    "ours-single": "--lr-schedule constant",
}
CONTENDERS = [
    *OURS,
    *("magrpo-aligned", "magrpo-cross", "magrpo-aligned-end-pad", "magrpo-cross-end-pad"),
    *("magrpo-aligned-end", "magrpo-aligned-pad", "magrpo-aligned-end-pad-clip"),
    *("magrpo-aligned-end-pad-adam", "magrpo-aligned-std", "trl-single", "iac", "maac"),
]


def agents_of(name: str) -> int:
    return 1 if name.endswith("single") else 2


def size_flags(name: str) -> list[str]:
    """Return the flags of train.py that say how many agents there are, and how long they write."""
    agents = agents_of(name)
    return f"--num-agents {agents} --max-new-tokens {TOKENS * 2 // agents}".split()


class Problems:
    """The problems of a run in their order, each agent's prompts, and the reward of each call."""

    def __init__(self, name: str, seed: int):
        self.task = Coop(num_agents=agents_of(name))
        items = self.task.items("train")
        numbers = [step_problems(step, BATCH, len(items), seed) for step in range(STEPS)]
        self.items = [items[number] for number in np.concatenate(numbers)]
        self.earned: list[float] = []
        self.score = cache(self.score_once)

    def prompt(self, agent: int, number: int) -> str:
        return self.task.observe(agent, self.items[number], [])

    def score_once(self, number: int, *texts: str) -> float:
        return total(code(self.items[number], list(texts)), len(texts))

    def reward(self, number: int, *responses: list[str]) -> list[float]:
        """Return the reward of each joint response to a problem: comlrl gives a list per agent."""
        rewards = [self.score(number, *texts) for texts in zip(*responses, strict=True)]
        self.earned += rewards
        return rewards


def load(seed: int):
    """Return the embedded model with a new adapter, as this project's agents have it."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(EMBEDDED, dtype=torch.float32)
    return get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))


def comlrl(name: str, rate: float, seed: int, problems: Problems) -> list:
    """Train two agents with comlrl and return them."""
    from comlrl.models.actor_critic import CausalLMWithValueHead
    from comlrl.trainers.actor_critic import IACConfig, IACTrainer, MAACConfig, MAACTrainer
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer

    kind, *words = name.split("-")
    agents = [load(seed * 2 + agent) for agent in range(2)]
    tokenizer = AutoTokenizer.from_pretrained(EMBEDDED)
    options = {
        "num_train_epochs": 1,
        "agent_learning_rate": rate,
        "num_generations": G,
        "max_new_tokens": TOKENS,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "num_turns": 1,
        "eval_interval": 0,
        "advantage_normalization": "std" in words,
    }
    common_arguments = {
        "tokenizer": tokenizer,
        "train_dataset": [{"number": number} for number in range(len(problems.items))],
        "reward_func": lambda *texts, batch_items: problems.reward(
            batch_items[0]["number"], *texts
        ),
        "formatters": [
            lambda item, agent=agent, **_: problems.prompt(agent, item["number"])
            for agent in range(2)
        ],
    }
    if kind == "magrpo":
        args = MAGRPOConfig(**options, joint_mode=words[0], rollout_buffer_size=BATCH)
        trainer = MAGRPOTrainer(agents=agents, num_agents=2, args=args, **common_arguments)
        repair(trainer, tokenizer, words)
    else:  # here a buffer counts responses
        options |= {"critic_learning_rate": rate, "rollout_buffer_size": BATCH * G}
        config, make = {"iac": (IACConfig, IACTrainer), "maac": (MAACConfig, MAACTrainer)}[kind]
        critics = [CausalLMWithValueHead(load(seed)) for _ in range(2 if kind == "iac" else 1)]
        actors = [CausalLMWithValueHead(agent, attach_value_head=False) for agent in agents]
        trainer = make(agents=actors, critics=critics, args=config(**options), **common_arguments)
    trainer.verbose = False
    trainer.train()
    return agents


def repair(trainer, tokenizer, words: list[str]) -> None:
    """Change what the words name in comlrl's MAGRPO trainer.

    It scores all tokens of a row but the last. A row is as long as the group's longest response.
    """
    pack = trainer._pack_completions_for_buffer

    def packed(completions: dict) -> dict:
        data = pack(completions)
        [rows] = data["completion_input_ids"]
        for number, row in enumerate(rows):
            ends = (row == tokenizer.eos_token_id).nonzero()
            if "pad" in words and len(ends):
                row = row[: int(ends[0]) + 1]
            if "end" in words:  # one more token, which takes the place of the unscored one
                row = torch.cat([row, row.new_tensor([tokenizer.pad_token_id])])
            rows[number] = row
        return data

    trainer._pack_completions_for_buffer = packed
    for optimizer in trainer.optimizers:
        [group] = optimizer.param_groups
        if "adam" in words:
            group["weight_decay"] = 0.0
        if "clip" in words:
            optimizer.register_step_pre_hook(
                lambda *_, group=group: torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
            )


def trl(name: str, rate: float, seed: int, problems: Problems) -> list:
    """Train one agent with TRL and return it."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    args = GRPOConfig(
        output_dir=str(RUNS / "trl"),  # nothing is saved
        seed=seed,
        use_cpu=True,
        bf16=False,
        learning_rate=rate,
        lr_scheduler_type="constant",
        per_device_train_batch_size=BATCH * G,
        num_generations=G,
        max_completion_length=2 * TOKENS,
        max_steps=STEPS,
        shuffle_dataset=False,
        gradient_checkpointing=False,
        scale_rewards="none",
        loss_type="dr_grpo",
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )

    def reward(completions, number, **_) -> list[float]:
        pairs = zip(number, completions, strict=True)
        return [problems.reward(at, [text])[0] for at, text in pairs]

    rows = range(len(problems.items))
    prompts = [{"prompt": problems.prompt(0, row), "number": row} for row in rows]
    agent = load(seed)
    GRPOTrainer(
        model=agent,
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_list(prompts),
        processing_class=AutoTokenizer.from_pretrained(EMBEDDED),
    ).train()
    return [agent]


def train_peer(name: str, rate: str, seed: int, folder: Path) -> None:
    """Train a peer. Write its agents and its mean reward by step, as shares of the maximum."""
    random.seed(seed)  # comlrl shuffles with it
    problems = Problems(name, seed)
    train = trl if name.startswith("trl") else comlrl
    for number, agent in enumerate(train(name, float(rate), seed, problems)):
        agent.save_pretrained(folder / f"agents/{number}")
    by_step = np.reshape(problems.earned, (STEPS, -1)).mean(1) / code.maximum
    (folder / "curve.json").write_text(json.dumps(by_step.tolist()), "utf-8")


def run(name: str, rate: str, seed: int) -> dict:
    """Train and evaluate a contender, unless that was done. Return what came of it."""
    folder = RUNS / f"{name}-{rate}-{seed}"
    result = folder / "result.json"
    if result.exists():
        return json.loads(result.read_text("utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    sizes = size_flags(name)
    quiet = ["--logger", "none", "--num-generations", str(G), "--batch-size", str(BATCH)]
    if name in OURS:
        steps = ["--max-steps", str(STEPS), "--lr", rate, "--seed", str(seed)]
        flags = [*OURS[name].split(), *steps, "--eval-limit", "none"]
        call("train.py", *flags, *quiet, *sizes, "--run", folder / "run")
    else:
        call("-m", "bench.learning", "--train", name, rate, seed, folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # A step with a rate of 0 evaluates the agents, as every run of this project is.
    trained = folder / ("run" if name in OURS else "")
    agents = [trained / f"agents/{agent}" for agent in range(agents_of(name))]
    flags = ["--init", *agents, "--lr", "0", "--max-steps", "1", "--eval-every", "1"]
    call("train.py", *flags, *quiet, *sizes, "--run", folder / "evaluation")
    summary = json.loads((folder / "evaluation/summary.json").read_text("utf-8"))
    metrics = json.loads((folder / "evaluation/metrics.jsonl").read_text("utf-8"))
    if name in OURS:
        lines = (folder / "run/metrics.jsonl").read_text("utf-8").splitlines()
        curve = [json.loads(line)["return"] for line in lines]
    else:
        curve = json.loads((folder / "curve.json").read_text("utf-8"))
    record = {"seconds": seconds, "curve": curve, "dev": metrics["dev/return"]}
    record["test"] = summary["before"]
    result.write_text(json.dumps(record), "utf-8")
    return record


def call(*command) -> None:
    subprocess.run([sys.executable, *map(str, command)], check=True)


def line(name: str, rate: str, seed: int) -> str:
    """Return a row of the table."""
    record = run(name, rate, seed)
    test = record["test"]
    numbers = [test[key] for key in ("return", "greedy/return", "metric/pass", "metric/coop")]
    curve = np.reshape(record["curve"], (6, -1)).mean(1)
    cells = [f"{number:.3f}" for number in (record["dev"], *numbers)]
    cells += [f"{record['seconds']:.0f}", " ".join(f"{value:.2f}" for value in curve)]
    return " | ".join([name, rate, str(seed), *cells])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--train", nargs=4, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.train:
        name, rate, seed, folder = flags.train
        train_peer(name, rate, int(seed), Path(folder))
        return
    print(common.machine())
    print("contender | rate | seed | dev | return | greedy | pass | coop | CPU s | by ten steps")
    for name in flags.only:
        dev = {}
        for rate in RATES:
            print(line(name, rate, DEV_SEED), flush=True)
            dev[rate] = run(name, rate, DEV_SEED)["dev"]
        best = max(dev, key=dev.get)
        for seed in SEEDS:
            print(line(name, best, seed), flush=True)


if __name__ == "__main__":
    main()
