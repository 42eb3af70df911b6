"""Seconds per problem of a training step: this project beside comlrl (n = 2) and TRL (n = 1).

    bench/.venv/bin/python -m bench.step [--rounds 5] [--lora-rank 16 0] [--only 256/8/512]

All three train the same weights on the same prompts with the same reward, the same number of
responses of the same length, one optimizer step per batch, in one process, one step each in turn.
"total" is from the start of one training step to the start of the next, so everything a trainer
does between is in it; "update" is what is left of it after rollout and reward.

Each peer in its fastest settings that still compute this loss, found in its source:
comlrl   top_k 0, top_p 1, temperature 1 (no warpers), no reference model, no logging, no tqdm;
         train_batch_size as large as the buffer (one optimizer step per batch and turn; of two
         turns it takes two). It generates and updates problem by problem: it has no setting for
         batches. Adapters: one peft model per agent.
TRL      one generation and one forward pass for the whole batch, beta 0 (no reference model), no
         gradient checkpointing (its default is on), no logging.
"""

import argparse
import json
import random
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench import common
from bench.common import (
    RESPONSE,
    Contender,
    for_agent,
    make_model,
    ours,
    score,
    timed,
    tokenizer_of,
)


class Point(NamedTuple):
    """A work point; sampling and shape are those of a real one where they are given."""

    tokens: int  # of a prompt
    group: int  # G
    vocab: int
    turns: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    shape: dict = {}  # noqa: RUF012  (of the model)


SMOL = {"hidden": 576, "layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3}
SMOL |= {"intermediate_size": 1536}
POINTS = {  # by P/G/V
    "64/4/512": Point(64, 4, 512),
    "256/8/512": Point(256, 8, 512),
    "256/8/32000": Point(256, 8, 32000),
    "128/4/512 x2": Point(128, 4, 512, turns=2),
    "SmolLM2-135M": Point(250, 6, 49152, 1, 0.7, 0.9, SMOL),  # its shape, the paper's sampling
}


def load(folder: str, lora_rank: int):
    """A model as the peers take it: whole, or with one adapter on every linear layer."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder)
    if lora_rank:
        config = LoraConfig(r=lora_rank, lora_alpha=32, target_modules="all-linear")
        model = get_peft_model(model, config)
    return model


def comlrl(folder: str, texts: list[str], batch: int, point: Point, rank: int):
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer

    class Items(list):
        """comlrl has no callbacks: the loader asking for a batch's first item is a step's start."""

        def __getitem__(self, number):
            if number % batch == 0:
                gates[0]()
            return super().__getitem__(number)

    gates: list = []
    nodes = sum(point.group**turn for turn in range(point.turns)) * batch  # what one step collects
    args = MAGRPOConfig(
        num_train_epochs=10**6,
        agent_learning_rate=3e-3,
        num_generations=point.group,
        max_new_tokens=RESPONSE,
        temperature=point.temperature,
        top_p=point.top_p,
        top_k=0,
        num_turns=point.turns,
        early_termination_threshold=None,
        external_prompt_passthrough=True,
        eval_interval=0,
        rollout_buffer_size=nodes,
        train_batch_size=nodes,
        advantage_normalization=False,
    )
    trainer = MAGRPOTrainer(
        agents=[load(folder, rank) for _ in range(2)],
        num_agents=2,
        tokenizer=tokenizer_of(folder),
        train_dataset=Items({"prompt": text} for text in texts),
        reward_func=lambda first, second: [score(first[0], second[0])],
        formatters=[lambda item, i=i, **_: for_agent(i, item["prompt"]) for i in range(2)],
        external_transition=lambda agent_completions, prompt_history_per_agent, **_: [
            f"{history[-1]} {text}"
            for history, text in zip(prompt_history_per_agent, agent_completions, strict=True)
        ],
        args=args,
    )
    trainer.verbose = False
    seconds: dict[str, float] = {}
    trainer._generate_completions = timed(trainer._generate_completions, seconds, "rollout")
    trainer._compute_rewards = timed(trainer._compute_rewards, seconds, "reward")

    def drive(gate):
        gates.append(gate)
        trainer.train()

    return Contender("comlrl", drive, seconds)


def trl(folder: str, texts: list[str], batch: int, point: Point, rank: int):
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    class Gate(TrainerCallback):
        def on_step_begin(self, *_, **__):
            gates[0]()

    gates: list = []
    args = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=True,
        bf16=False,
        learning_rate=3e-3,
        lr_scheduler_type="constant",
        per_device_train_batch_size=batch * point.group,
        num_generations=point.group,
        temperature=point.temperature,
        top_p=point.top_p,
        max_completion_length=RESPONSE,
        max_steps=10**6,
        max_grad_norm=1.0,
        gradient_checkpointing=False,
        scale_rewards="none",
        loss_type="dr_grpo",
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=load(folder, rank),
        reward_funcs=lambda completions, **_: [score(text) for text in completions],
        args=args,
        train_dataset=Dataset.from_list([{"prompt": for_agent(0, text)} for text in texts]),
        processing_class=tokenizer_of(folder),
        callbacks=[Gate()],
    )
    seconds: dict[str, float] = {}
    trainer._generate = timed(trainer._generate, seconds, "rollout")
    trainer._calculate_rewards = timed(trainer._calculate_rewards, seconds, "reward")

    def drive(gate):
        gates.append(gate)
        trainer.train()

    return Contender("TRL", drive, seconds)


def measure(name: str, batch: int, agents: int, rank: int, rounds: int) -> dict:
    """Seconds per problem at one work point, of this project and of its peer."""
    point = POINTS[name]
    texts = common.prompts(64, point.tokens, point.vocab)
    random.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), point.vocab, **point.shape)
        flags = f"--num-generations {point.group} --batch-size {batch} --lora-rank {rank}"
        flags += f" --temperature {point.temperature} --top-p {point.top_p}"
        mine = ours(folder, texts, agents, point.turns, flags.split())
        peer = (comlrl if agents == 2 else trl)(folder, texts, batch, point, rank)
        found = common.take_turns([mine, peer], rounds)
    return {
        "point": name,
        "batch": batch,
        "agents": agents,
        "lora_rank": rank,
        "peer": peer.name,
        "seconds": {
            side: [{key: value / batch for key, value in row.items()} for row in found[name]]
            for side, name in (("ours", mine.name), ("peer", peer.name))
        },
    }


def show(result: dict) -> str:
    """One line: seconds of each side (median of rounds) in parts, and the ratios."""
    mine, peer = result["seconds"]["ours"], result["seconds"]["peer"]

    def median(rows: list[dict], key: str) -> float:
        return statistics.median(row[key] for row in rows)

    ratios = [p["total"] / m["total"] for m, p in zip(mine, peer, strict=True)]
    cells = [
        " ".join(f"{median(rows, key):7.3f}" for key in ("total", "rollout", "reward", "update"))
        for rows in (mine, peer)
    ]
    best = min(row["total"] for row in peer) / min(row["total"] for row in mine)
    parts = [median(peer, key) / median(mine, key) for key in ("rollout", "update")]
    return (
        f"{result['point']:13} {result['batch']:5} {result['lora_rank'] or 'full':>5} | {cells[0]} "
        f"| {cells[1]} | {statistics.median(ratios):5.2f} {min(ratios):5.2f} {best:7.2f} "
        f"{parts[0]:7.2f} {parts[1]:6.2f}"
    )


def header(peer: str) -> str:
    parts = "  total rollout  reward  update"
    return (
        f"{'P/G/V':13} batch  LoRA | {'ours':31} | {peer:31} | {peer} / ours\n"
        f"{'':26} | {parts} | {parts} | median   min best/best rollout update"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=POINTS, default=list(POINTS))
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--agents", type=int, nargs="*", default=[2, 1], help="2 comlrl, 1 TRL")
    parser.add_argument("--lora-rank", type=int, nargs="*", default=[16, 0], help="0: full models")
    parser.add_argument("--json", type=Path)
    flags = parser.parse_args()
    results = []
    print(common.machine())
    for agents in flags.agents:
        print(f"\nseconds per problem, medians of {flags.rounds} rounds; n = {agents}")
        print(header("comlrl" if agents == 2 else "TRL"))
        for rank in flags.lora_rank:
            for point in flags.only:
                if agents == 1 and POINTS[point].turns > 1:
                    continue  # TRL's trainer has no turns of this kind
                for batch in flags.batch:
                    results.append(measure(point, batch, agents, rank, flags.rounds))
                    print(show(results[-1]), flush=True)
    if flags.json:
        flags.json.write_text(json.dumps({"machine": common.machine(), "results": results}))


if __name__ == "__main__":
    main()
