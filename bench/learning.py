"""Return against samples and wall-clock on the embedded task: this project beside comlrl.

    bench/.venv/bin/python -m bench.learning [--seeds 0 1 2] [--seconds 240] [--json out.json]
    bench/.venv/bin/python -m bench.learning --tune        # comlrl's settings, on dev

Both sides train two agents of tiny/ with the same reward (rewards.code, in the sandbox) on the same
problems in the same order, 8 samples of at most 96 tokens at temperature 1, every pairing scored
(cross; not tried otherwise for comlrl). Ours runs its default 130 steps of 12 problems; comlrl runs
until it has seen as many samples or --seconds of its own clock are over. It has no schedule of the
learning rate; its rate and its problems an optimizer step are CHOSEN, a guess until --tune is run.

The clock stands still while a team is evaluated. One evaluator serves both: plain models with the
adapters merged into them, 4 samples for each of the held-out problems.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from peft.tuners.lora import LoraLayer

import train
from bench import common
from bench.common import Contender, contender_of, timed
from bench.step import load
from magrpo import problem_numbers
from training.heldout import evaluate

BATCH, GROUP, LENGTH = 12, 8, 96
TRIED = [  # comlrl's LoRA rank, rate, problems an optimizer step; --tune compares them on dev
    (16, 3e-3, 12),
    (16, 3e-3, 4),
    (16, 1e-3, 2),
    (0, 5e-4, 4),
    (0, 2e-4, 2),
]
CHOSEN = TRIED[1]


def flags_of(seed: int, *more: str) -> list[str]:
    return ["--seed", str(seed), "--eval-limit", "50", *more]


def plain_state(model, adapter: str) -> dict[str, torch.Tensor]:
    """Weights of a model with one adapter merged; the model stays as it is."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    state = {
        name.replace(".base_layer", ""): value.detach().clone()
        for name, value in base.named_parameters()
        if "lora_" not in name
    }
    for name, layer in base.named_modules():
        if isinstance(layer, LoraLayer):
            state[f"{name}.weight"] += layer.get_delta_weight(adapter).detach()
    return state


class Evaluator:
    """Held-out return of two agents given as plain weights, whoever trained them."""

    def __init__(self, split: str):
        self.args = train.parse(flags_of(0, "--lora-rank", "0"))
        self.module, held_out = train.build(self.args)
        self.items = held_out[split]

    def __call__(self, states: list[dict]) -> float:
        for base, state in zip(self.module.team.bases, states, strict=True):
            base.net.load_state_dict(state, strict=False)  # the head is the embedding
        before = torch.get_rng_state()
        measures, _, _ = evaluate(self.module, self.items)
        torch.set_rng_state(before)
        return measures["return"]


def ours(seed: int):
    """(contender, its agents' weights)."""
    module, _ = train.build(train.parse(flags_of(seed)))
    base = module.team.bases[0]
    return contender_of(module), lambda: [plain_state(base.model, f"agent{i}") for i in range(2)]


def comlrl(seed: int, rank: int, rate: float, batch: int):
    from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer
    from transformers import AutoTokenizer

    module, _ = train.build(train.parse(flags_of(seed)))
    task, problems = module.rollout.task, module.problems
    reward = module.rollout.reward.reward
    order = problem_numbers(0, module.args.max_steps * BATCH, len(problems), seed)

    class Items(list):
        def __getitem__(self, number):
            if number % BATCH == 0:
                gates[0]()
            return super().__getitem__(number)

    gates: list = []
    args = MAGRPOConfig(
        num_train_epochs=2,
        agent_learning_rate=rate,
        num_generations=GROUP,
        max_new_tokens=LENGTH,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        num_turns=1,
        joint_mode="cross",
        early_termination_threshold=None,
        eval_interval=0,
        rollout_buffer_size=batch,
        train_batch_size=batch,
        advantage_normalization=False,
    )
    torch.manual_seed(seed)
    random.seed(seed)
    trainer = MAGRPOTrainer(
        agents=[load(train.TINY, rank) for _ in range(2)],
        num_agents=2,
        tokenizer=AutoTokenizer.from_pretrained(train.TINY),
        train_dataset=Items(problems[number] for number in order),
        reward_func=lambda first, second, batch_items: [
            sum(
                value
                for name, value in reward(batch_items[0], [first[0], second[0]]).items()
                if not name.startswith("metric/")
            )
        ],
        formatters=[lambda item, i=i, **_: task.observe(i, item, []) for i in range(2)],
        args=args,
    )
    trainer.verbose = False
    torch.manual_seed(seed)  # `load` sets its own
    seconds: dict[str, float] = {}
    trainer._generate_completions = timed(trainer._generate_completions, seconds, "rollout")

    def drive(gate):
        gates.append(gate)
        trainer.train()

    agents = trainer.agents
    return Contender("comlrl", drive, seconds), lambda: [plain_state(a, "default") for a in agents]


def curve(side, evaluator: Evaluator, steps: int, limit: float, every: int) -> list[dict]:
    """Points of one run: batches of 12, samples of an agent, seconds of training, return."""
    contender, weights = side
    points, clock = [], 0.0
    for step in range(steps + 1):
        over = step == steps or clock >= limit
        if step % every == 0 or over:
            value = evaluator(weights())
            samples = step * BATCH * GROUP
            points.append({"step": step, "samples": samples, "seconds": clock, "return": value})
            print(
                f"  {contender.name:7} {step:4} {samples:6} {clock:7.1f} s {value:.3f}", flush=True
            )
        if over:
            return points
        clock += contender.step()["total"]


def tune(seconds: float) -> None:
    """comlrl's final return on dev after so many seconds, for each setting of TRIED."""
    evaluator = Evaluator("dev")
    for rank, rate, batch in TRIED:
        print(f"comlrl, LoRA rank {rank}, rate {rate}, {batch} problems an optimizer step")
        curve(comlrl(0, rank, rate, batch), evaluator, 130, seconds, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=240.0, help="of comlrl's clock, a seed")
    parser.add_argument("--steps", type=int, default=130)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--json", type=Path)
    flags = parser.parse_args()
    train.quiet()
    print(common.machine())
    if flags.tune:
        return tune(flags.seconds)
    evaluator, results = Evaluator("test"), []
    for seed in flags.seeds:
        print(f"seed {seed}: batches of 12, samples an agent, seconds, held-out return")
        theirs = curve(comlrl(seed, *CHOSEN), evaluator, flags.steps, flags.seconds, 5)
        mine = curve(ours(seed), evaluator, flags.steps, float("inf"), 5)
        results.append({"seed": seed, "ours": mine, "comlrl": theirs})
    print("\nseed | comlrl ends: return samples seconds | ours gets there: samples seconds | clock")
    for result in results:
        end = result["comlrl"][-1]
        there = next((p for p in result["ours"] if p["return"] >= end["return"]), None)
        cells = f"{result['seed']:4} | {end['return']:.3f} {end['samples']:6} {end['seconds']:7.1f}"
        if there:
            share = there["seconds"] / end["seconds"]
            cells += f" | {there['samples']:6} {there['seconds']:7.1f} | {share:.3f}"
        print(f"{cells} | ours ends at {result['ours'][-1]['return']:.3f}")
    if flags.json:
        flags.json.write_text(json.dumps({"machine": common.machine(), "results": results}))


if __name__ == "__main__":
    main()
