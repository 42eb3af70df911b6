"""Compare how much this project's trainer learns with comlrl's and TRL's, on `coop`.

    bench/.venv/bin/python -m bench.learning [--only NAME ...]
    bench/.venv/bin/python -m bench.learning --gradient

All train adapters of rank 16 on every linear layer of the embedded model. Problems, their order,
reward and the number of samples are the same. A run has 60 steps of 12 problems, 8 responses of
each agent, 96 tokens (192 of one agent), and temperature 1. Each contender tries three rates on one
seed. The best on dev problems trains with other seeds, and this project's held-out evaluation
judges. A run has a folder in runs/learning/, below the commit. The same command goes on with what
is missing, and trains an unfinished run anew.

With --gradient the two gradients of one rollout are compared: this project's, and comlrl's with
its last token trained and padding left out.

A contender's name says what it is.

    `ours-aligned`, `ours-default`, `ours-single`    This project.
    `magrpo-aligned`, `magrpo-cross`    comlrl's trainer, advantages not divided by the deviation.
        `-std`     Divided, which is its default.
        `-end`     The last token of a group's longest response is trained, too.
        `-pad`     Padding after a response's end is not trained. Alone it leaves no trained end.
        `-clip`    The norm of an agent's gradient is cut at 1.
        `-adam`    AdamW without its weight decay.
    `iac`, `maac`    comlrl's actor-critic trainers, with a critic each, and with one for all.
    `trl-single`     GRPOTrainer, one agent.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from bench import common  # first: it says how many threads there are

# isort: split
import numpy as np
import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

import train
from magrpo import epoch_order
from policies.model_names import EMBEDDED
from rewards import code, total
from tasks import Coop
from training.run_folder import (
    code_version,
    json_lines,
    json_text,
    read_json,
    read_records,
    write_whole,
)

STEPS = 60
BATCH = 12  # problems of a step
G = 8  # responses of each agent to a problem
TOKENS = 96  # of a response. One agent writes both halves.
RATES = ("3e-4", "1e-3", "3e-3")
DEV_SEED = 10
SEEDS = (0, 1, 2)
RUNS = Path("runs/learning") / code_version({"task": None, "reward": None})
COLUMNS = ("return", "greedy/return", "metric/pass", "metric/coop")  # held out
OURS = {
    "ours-aligned": "--joint aligned --optimism 0 --lr-schedule constant",
    "ours-default": "",
    "ours-single": "--lr-schedule constant",
}
CONTENDERS = """\
    ours-aligned ours-default ours-single
    magrpo-aligned magrpo-cross magrpo-aligned-end-pad magrpo-cross-end-pad
    magrpo-aligned-end magrpo-aligned-pad magrpo-aligned-std
    magrpo-aligned-end-pad-clip magrpo-aligned-end-pad-adam
    trl-single iac maac"""


def agents_of(name: str) -> int:
    return 1 if name.endswith("single") else 2


class Problems:
    """The problems of a run in their order, what agents are asked, and the reward of each call."""

    def __init__(self, name: str, seed: int):
        self.task = Coop(num_agents=agents_of(name))
        items = self.task.items("train")
        order = epoch_order(seed, 0, len(items))
        self.items = [items[at] for at in order[: STEPS * BATCH]]
        self.earned: list[float] = []

    def reward(self, *responses: list[str], batch_items: list[dict]) -> list[float]:
        """Return the reward of each joint response to a problem, as comlrl asks for it."""
        rewards = []
        for texts in zip(*responses, strict=True):
            rewards.append(total(code(batch_items[0], list(texts)), len(texts)))
        self.earned += rewards
        return rewards


def load(seed: int):
    """Return the embedded model with a new adapter, as this project's agents have it."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(EMBEDDED, dtype=torch.float32)
    return get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))


def comlrl(rate: float, seed: int, problems: Problems, words: list[str]) -> list:
    """Train two agents with comlrl and return them."""
    from comlrl.models.actor_critic import CausalLMWithValueHead
    from comlrl.trainers.actor_critic import IACConfig, IACTrainer, MAACConfig, MAACTrainer
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer

    agents = [load(seed * 2 + agent) for agent in range(2)]
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
    data = {
        "tokenizer": AutoTokenizer.from_pretrained(EMBEDDED),
        "train_dataset": problems.items,
        "reward_func": problems.reward,
        "formatters": [
            lambda item, agent=agent, **_: problems.task.observe(agent, item, [])
            for agent in range(2)
        ],
    }
    if words[0] == "magrpo":
        args = MAGRPOConfig(**options, joint_mode=words[1], rollout_buffer_size=BATCH)
        trainer = MAGRPOTrainer(agents=agents, num_agents=2, args=args, **data)
        repair(trainer, words)
    else:  # here a buffer counts responses
        options |= {"critic_learning_rate": rate, "rollout_buffer_size": BATCH * G}
        config, make, count = MAACConfig, MAACTrainer, 1
        if words[0] == "iac":
            config, make, count = IACConfig, IACTrainer, 2
        critics = [CausalLMWithValueHead(load(seed + number)) for number in range(count)]
        actors = [CausalLMWithValueHead(agent, attach_value_head=False) for agent in agents]
        trainer = make(agents=actors, critics=critics, args=config(**options), **data)
    trainer.verbose = False
    trainer.train()
    return agents


def repair(trainer, words: list[str]) -> None:
    """Change what the words name in comlrl's MAGRPO trainer.

    It scores all tokens of a row but the last. A row is as long as the group's longest response.
    """
    pack = trainer._pack_completions_for_buffer

    def packed(completions: dict) -> dict:
        data = pack(completions)
        [rows] = data["completion_input_ids"]
        for number, row in enumerate(rows):
            ends = (row == trainer.tokenizer.eos_token_id).nonzero()
            if "pad" in words and len(ends):
                row = row[: int(ends[0]) + 1]
            if "end" in words:  # one more token, which takes the place of the unscored one
                row = torch.cat([row, row.new_zeros(1)])
            rows[number] = row
        return data

    trainer._pack_completions_for_buffer = packed
    for optimizer in trainer.optimizers:
        [group] = optimizer.param_groups
        if "adam" in words:
            group["weight_decay"] = 0.0
        if "clip" in words:
            optimizer.register_step_pre_hook(clip)


def clip(optimizer, *_) -> None:
    """Cut the norm of an agent's gradient at 1, as this project does."""
    [group] = optimizer.param_groups
    torch.nn.utils.clip_grad_norm_(group["params"], 1.0)


def trl(rate: float, seed: int, problems: Problems, words: list[str]) -> list:
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
        save_strategy="no",
    )

    def reward(completions, number, **_) -> list[float]:
        rewards = []
        for place, text in zip(number, completions, strict=True):
            rewards += problems.reward([text], batch_items=[problems.items[place]])
        return rewards

    rows = []
    for number, item in enumerate(problems.items):
        rows.append({"prompt": problems.task.observe(0, item, []), "number": number})
    agent = load(seed)
    GRPOTrainer(
        model=agent,
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(EMBEDDED),
    ).train()
    return [agent]


def train_peer(name: str, rate: str, seed: int, folder: Path) -> None:
    """Train a peer. Write its agents and its mean reward by step, as shares of the maximum."""
    random.seed(seed)  # comlrl shuffles with it
    problems = Problems(name, seed)
    trainer = trl if name == "trl-single" else comlrl
    for number, agent in enumerate(trainer(float(rate), seed, problems, name.split("-"))):
        agent.save_pretrained(folder / f"agents/{number}")
    by_step = np.reshape(problems.earned, (STEPS, -1)).mean(1) / code.maximum
    rows = [{"return": value} for value in by_step.tolist()]
    (folder / "metrics.jsonl").write_text(json_lines(rows), "utf-8")


def compare_gradients() -> None:
    """Print the cosine of both trainers' gradients of one rollout, and the ratio of their norms."""
    from comlrl.trainers.reinforce import MAGRPOTrainer

    args = train.parse(["--joint", "aligned", "--optimism", "0", "--eval-limit", "none"])
    module, _ = train.build(args, train.prepare(args))
    trained = dict(module.team.named_parameters())
    for name, weight in trained.items():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, 0, 0.02)  # where it is 0, lora_A has no gradient
    module.manual_backward = torch.Tensor.backward
    module.optimizers = lambda: module  # to set its gradients to 0
    [nodes] = module.turns = module.play(BATCH)
    module.set_advantages()
    module.compute_gradients(module.rows())
    trainer = SimpleNamespace(
        args=SimpleNamespace(advantage_normalization=False),
        _apply_reference_kl_to_returns=lambda returns, completions: returns,
        _compute_advantages=lambda returns: returns - returns.mean(),
    )
    for agent in range(2):
        peer = load(0)
        pairs = []  # of each weight, both copies
        for name, weight in peer.named_parameters():
            if weight.requires_grad:
                own = trained["bases.0.model." + name.replace("default", f"agent{agent}")]
                weight.data.copy_(own)
                pairs.append((own, weight))
        for node in nodes:
            rows = [F.pad(torch.tensor(row.tokens), (0, 1)) for row in node.responses[agent]]
            prompt = torch.tensor([node.prompts[agent]])
            data = {"prompt_input_ids": prompt, "completion_input_ids": [rows]}
            returns = node.returns[agent].tolist()
            loss = MAGRPOTrainer._compute_loss_with_gradients(trainer, peer, data, returns)
            (loss / BATCH).backward()
        ours = torch.cat([own.grad.flatten() for own, _ in pairs]).double()
        theirs = torch.cat([weight.grad.flatten() for _, weight in pairs]).double()
        distance = 1 - F.cosine_similarity(ours, theirs, 0)
        ratio = ours.norm() / theirs.norm()
        print(f"agent {agent}: 1 - cosine {distance:.1e}, ratio of norms {ratio:.7f}")


def run(name: str, rate: str, seed: int) -> dict:
    """Train and evaluate a contender, unless that was done. Return what came of it."""
    folder = RUNS / f"{name}-{rate}-{seed}"
    if record := read_json(folder, "result.json"):
        return record
    shutil.rmtree(folder, ignore_errors=True)  # the CPU seconds are of one whole run
    trained = folder / "run"
    agents = agents_of(name)
    sizes = f"--num-agents {agents} --max-new-tokens {TOKENS * 2 // agents} --logger none".split()
    before = sum(os.times()[2:4])  # CPU seconds of children
    if name in OURS:
        steps = ["--max-steps", STEPS, "--lr", rate, "--seed", seed, "--eval-limit", "none"]
        call("train.py", *OURS[name].split(), *steps, *sizes, "--run", trained)
    else:
        call("-m", "bench.learning", "--train", name, rate, seed, trained)
    record: dict = {"seconds": sum(os.times()[2:4]) - before}
    record["curve"] = [row["return"] for row in read_records(trained / "metrics.jsonl")]
    # A step with a rate of 0 evaluates the agents, as every run of this project is.
    folders = [trained / f"agents/{agent}" for agent in range(agents)]
    flags = ["--init", *folders, "--lr", 0, "--max-steps", 1, "--eval-every", 1]
    call("train.py", *flags, *sizes, "--run", folder / "evaluation")
    [metrics] = read_records(folder / "evaluation/metrics.jsonl")
    record["dev"] = metrics["dev/return"]
    record["test"] = read_json(folder / "evaluation", "summary.json")["before"]
    write_whole(folder / "result.json", json_text(record))
    return record


def call(*command) -> None:
    """Run a program without its report, which would stand between the rows of the table."""
    subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.DEVNULL)


def line(name: str, rate: str, seed: int) -> str:
    """Return a row of the table."""
    record = run(name, rate, seed)
    numbers = [record["dev"]]
    numbers += [record["test"][key] for key in COLUMNS]
    numbers += np.reshape(record["curve"], (6, -1)).mean(1).tolist()
    cells = " ".join(f"{number:.3f}" for number in numbers)
    return f"{name:28} {rate} {seed:2} {cells} {record['seconds']:5.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=CONTENDERS.split())
    parser.add_argument("--train", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--gradient", action="store_true")
    flags = parser.parse_args()
    if flags.gradient:
        compare_gradients()
        return
    if flags.train:
        name, rate, seed, folder = flags.train
        train_peer(name, rate, int(seed), Path(folder))
        return
    print(common.machine())
    print("contender, rate, seed; dev,", *COLUMNS, "; return in training by ten steps; CPU s")
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
