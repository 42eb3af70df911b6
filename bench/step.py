"""Seconds per problem of a training step, beside comlrl (n = 2) and TRL (n = 1).

    bench/.venv/bin/python -m bench.step [--rounds 5] [--lora-rank 16 0] [--only 256/8/512]

--plain compares with this project without policies/fast/ instead.

All three train the same weights on the same prompts with the same reward. They sample as many
responses of the same length and make one optimizer step per batch. They run in one process, one
step each in turn. "total" runs from the start of a step to the start of the next, so it holds
everything that a trainer does between. "update" is the total without rollout and reward.

MFU is the model FLOPs utilisation of this project's step. It divides the FLOPs that every token
needs once (bench/flops.py says which) by the FLOPs of large products in the same time. Large
products are timed before each work point, on the same thread.

Each peer has its fastest settings that still compute this loss:
comlrl   no warpers, no reference model, no logging. One optimizer step per batch and turn. It
         generates and updates problem by problem, and has one peft model per agent.
TRL      one generation and one forward pass for the whole batch, no reference model, no logging,
         no gradient checkpointing.
"""

import argparse
import random
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench import common
from bench.common import RESPONSE, Contender, for_agent, score, timed, tokenizer_of
from bench.flops import DTYPES, count_tokens, model_flops, peak_flops

COLUMNS = ("total", "rollout", "update")
SMOL = {"hidden": 576, "layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3}
SMOL |= {"intermediate_size": 1536}
QWEN = {"hidden": 896, "layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2}
QWEN |= {"intermediate_size": 4864}


class Point(NamedTuple):
    """A work point."""

    tokens: int  # of a prompt
    group: int  # G
    vocab: int
    turns: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    shape: dict = {}  # noqa: RUF012  (of the model)


POINTS = {  # by P/G/V
    "64/4/512": Point(64, 4, 512),
    "256/8/512": Point(256, 8, 512),
    "256/8/32000": Point(256, 8, 32000),
    "128/4/512 x2": Point(128, 4, 512, turns=2),
}
TOYS = list(POINTS)
POINTS |= {  # shapes of real models, the paper's sampling
    "SmolLM2-135M": Point(250, 6, 49152, 1, 0.7, 0.9, SMOL),
    "Qwen2.5-0.5B": Point(450, 8, 151936, 1, 0.7, 0.9, QWEN),
}


def load(folder: str, lora_rank: int, bits: int):
    """Load a model for a peer: whole, or with one adapter on every linear layer."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[bits])
    if lora_rank:
        config = LoraConfig(r=lora_rank, lora_alpha=32, target_modules="all-linear")
        model = get_peft_model(model, config)
    return model


def comlrl(
    folder: str, texts: list[str], batch: int, point: Point, rank: int, bits: int
) -> Contender:
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer

    nodes = sum(point.group**turn for turn in range(point.turns)) * batch  # of one step
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
    seconds: dict[str, float] = {}

    def second_prompts(agent_completions, prompt_history_per_agent, **_) -> list[str]:
        pairs = zip(prompt_history_per_agent, agent_completions, strict=True)
        return [f"{history[-1]} {text}" for history, text in pairs]

    def drive(gate: Callable) -> None:
        class Items(list):
            """comlrl has no callbacks. Asking for a batch's first item is a step's start."""

            def __getitem__(self, number):
                if number % batch == 0:
                    gate()
                return super().__getitem__(number)

        trainer = MAGRPOTrainer(
            agents=[load(folder, rank, bits) for _ in range(2)],
            num_agents=2,
            tokenizer=tokenizer_of(folder),
            train_dataset=Items({"prompt": text} for text in texts),
            reward_func=lambda first, second: [score(first[0], second[0])],
            formatters=[lambda item, i=i, **_: for_agent(i, item["prompt"]) for i in range(2)],
            external_transition=second_prompts,
            args=args,
        )
        trainer.verbose = False
        trainer._generate_completions = timed(trainer._generate_completions, seconds, "rollout")
        trainer._compute_rewards = timed(trainer._compute_rewards, seconds, "reward")
        trainer.train()

    return Contender("comlrl", drive, seconds)


def trl(folder: str, texts: list[str], batch: int, point: Point, rank: int, bits: int) -> Contender:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    args = GRPOConfig(
        output_dir=folder,  # nothing is saved
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
    seconds: dict[str, float] = {}

    def drive(gate: Callable) -> None:
        class Gate(TrainerCallback):
            def on_step_begin(self, *_, **__):
                gate()

        trainer = GRPOTrainer(
            model=load(folder, rank, bits),
            reward_funcs=lambda completions, **_: [score(text) for text in completions],
            args=args,
            train_dataset=Dataset.from_list([{"prompt": for_agent(0, text)} for text in texts]),
            processing_class=tokenizer_of(folder),
            callbacks=[Gate()],
        )
        trainer._generate = timed(trainer._generate, seconds, "rollout")
        trainer._calculate_rewards = timed(trainer._calculate_rewards, seconds, "reward")
        trainer.train()

    return Contender("TRL", drive, seconds)


def measure(
    name: str, batch: int, agents: int, rank: int, bits: int, rounds: int, plain: bool
) -> str:
    """Return the line of one work point: this project beside its peer."""
    point = POINTS[name]
    texts = common.prompts(64, point.tokens, point.vocab)
    random.seed(0)
    peak = peak_flops(DTYPES[bits])
    with tempfile.TemporaryDirectory() as folder:
        model = common.make_model(Path(folder), point.vocab, **point.shape)
        flags = f"--num-generations {point.group} --batch-size {batch} --lora-rank {rank}"
        flags += f" --bits {bits}"
        flags += f" --temperature {point.temperature} --top-p {point.top_p} --joint aligned"
        project = common.ours(folder, texts, agents, point.turns, flags)
        if plain:
            peer = common.ours(folder, texts, agents, point.turns, flags, plain=True)
        else:
            make_peer = comlrl if agents == 2 else trl
            peer = make_peer(folder, texts, batch, point, rank, bits)
        project_rows, peer_rows = common.take_turns(project, peer, rounds)
    tokens = count_tokens(point.tokens, point.group, RESPONSE, point.turns)
    layers = sum(parameter.numel() for parameter in model.model.layers.parameters())
    head = model.lm_head.weight.numel()
    flops = agents * model_flops(layers, head, *tokens, "adapters" if rank else "full")
    start = f"{name:13} {batch:5} {rank or 'full':>5} | "
    return start + compared(project_rows, peer_rows, batch, flops / peak)


def compared(project_rows: list[dict], peer_rows: list[dict], batch: int, least: float) -> str:
    """Return each side's median seconds a problem, this project's MFU, and the ratios.

    least: the seconds that a problem's FLOPs take in large products.
    """
    project = medians(project_rows, batch)
    peer = medians(peer_rows, batch)
    ratios = []
    for project_row, peer_row in zip(project_rows, peer_rows, strict=True):
        ratios.append(peer_row["total"] / project_row["total"])
    cells = [
        " ".join(f"{project[part]:7.3f}" for part in COLUMNS) + f" {least / project['total']:5.1%}",
        " ".join(f"{peer[part]:7.3f}" for part in COLUMNS),
        f"{statistics.median(ratios):6.2f} {min(ratios):5.2f}",
        f"{peer['rollout'] / project['rollout']:7.2f} {peer['update'] / project['update']:6.2f}",
    ]
    return " | ".join(cells)


def medians(rows: list[dict], batch: int) -> dict[str, float]:
    return {part: statistics.median(row[part] for row in rows) / batch for part in COLUMNS}


def header(peer: str) -> str:
    parts = "  total rollout  update"
    return (
        f"{'P/G/V':13} batch  LoRA | {'ours':29} | {peer:23} | {peer} / ours\n"
        f"{'':25} | {parts}   MFU | {parts} | median   min | rollout update"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=POINTS, default=TOYS)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--agents", type=int, nargs="*", default=[2, 1], help="2 comlrl, 1 TRL")
    parser.add_argument("--lora-rank", type=int, nargs="*", default=[16, 0], help="0: full models")
    parser.add_argument("--bits", type=int, choices=DTYPES, default=32, help="16: adapters alone")
    parser.add_argument("--plain", action="store_true", help="compare with the plain way")
    flags = parser.parse_args()
    print(common.machine())
    for agents in flags.agents:
        print(f"\nseconds per problem, medians of {flags.rounds} rounds; n = {agents}")
        print(header("plain" if flags.plain else "comlrl" if agents == 2 else "TRL"))
        for rank in flags.lora_rank:
            for point in flags.only:
                if agents == 1 and POINTS[point].turns > 1 and not flags.plain:
                    continue  # TRL's trainer has no turns of this kind
                for batch in flags.batch:
                    numbers = (batch, agents, rank, flags.bits, flags.rounds)
                    print(measure(point, *numbers, flags.plain), flush=True)


if __name__ == "__main__":
    main()
