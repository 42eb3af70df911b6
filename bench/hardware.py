"""Which recipe fits which card, with which flags: by the arithmetic of --dry-run, nothing is run.

    python -m bench.hardware

Models are built without memory (torch's meta device) from their published shapes; prompts are taken
as PROMPT tokens long, responses as long as they may be. What a card holds besides (CUDA's own half
a GiB, what its allocator cannot use) is why a plan may take only FREE of it.
"""

import functools
import itertools
import types

import torch
from torch import nn
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen3Config

import train
from policies.base import Base
from running import estimate

PROMPT, FREE = 512, 0.9
CARDS = (8, 24, 80)  # GB, as they are sold: 10^9 bytes
SHAPES = {  # hidden, layers, heads, key heads, feed-forward, vocabulary, tied: of their config.json
    "Qwen/Qwen2.5-Coder-0.5B": (896, 24, 14, 2, 4864, 151936, True),
    "Qwen/Qwen2.5-Coder-1.5B": (1536, 28, 12, 2, 8960, 151936, True),
    "Qwen/Qwen2.5-Coder-3B": (2048, 36, 16, 2, 11008, 151936, True),
    "Qwen/Qwen2.5-Coder-7B": (3584, 28, 28, 4, 18944, 152064, False),
    "Qwen/Qwen3-0.6B": (1024, 28, 16, 8, 3072, 151936, True),
    "Qwen/Qwen3-1.7B": (2048, 28, 16, 8, 6144, 151936, True),
}
SMALLER = {"Qwen/Qwen2.5-Coder-3B": "Qwen/Qwen2.5-Coder-1.5B", "Qwen/Qwen3-1.7B": "Qwen/Qwen3-0.6B"}
LADDER = (  # what is tried in turn
    "",
    "--lora-rank 64 --lora-alpha 128 --bits 16",
    "--lora-rank 16 --lora-alpha 32 --bits 16",
    "--lora-rank 16 --lora-alpha 32 --bits 4",
)
RECIPES = ("humaneval", "humaneval-2turns", "coophumaneval", "coophumaneval-2turns")
RECIPES += ("tldr", "arxiv")


@functools.cache
def module_of(model: str, agents: int, bits: int, *lora: int):
    """What running.estimate asks of a module, without weights, a task or a tokenizer."""
    bases, base_of = [], {}
    for members in [range(agents)] if lora[0] else [[agent] for agent in range(agents)]:
        bases.append(Base(model_of(model, bits), Words(), list(members), *lora))
        base_of |= dict.fromkeys(members, bases[-1])
    team = types.SimpleNamespace(bases=bases)
    team.parameters_of = lambda agent: base_of[agent].parameters_of(agent)
    task = types.SimpleNamespace(observe=lambda *what: "")
    rollout = types.SimpleNamespace(task=task, encode=lambda *what: range(PROMPT))
    return types.SimpleNamespace(team=team, rollout=rollout, problems=[{}])


class Words:
    eos_token_id = 0


def model_of(name: str, bits: int):
    hidden, layers, heads, keys, inner, vocab, tied = SHAPES[name]
    kind = Qwen3Config if "Qwen3" in name else Qwen2Config
    config = kind(
        vocab_size=vocab,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        intermediate_size=inner,
        max_position_embeddings=32768,
        tie_word_embeddings=tied,
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.float32 if bits == 32 else torch.bfloat16
        )
    for layer in model.model.layers.modules() if bits < 16 else ():
        if isinstance(layer, nn.Linear):  # 4 bits: and a scale of 4 bytes for each 64 weights
            size = int(layer.weight.numel() * (bits / 8 + (bits == 4) / 16))
            packed = torch.empty(size, dtype=torch.uint8, device="meta")
            layer.weight = nn.Parameter(packed, requires_grad=False)
    return model


def plan(recipe: str, card: int) -> str:
    """The first of the ladder's flags with which a recipe fits a card, as a cell of the table."""
    own = train.parse([f"@recipes/{recipe}.args"]).model[0]
    for model, flags, part in itertools.product((own, SMALLER[own]), LADDER, (1, 2, 4)):
        named = f"--model {model}" if model != own else ""
        given = f"--memory {card // part}" if part > 1 else ""
        words = f"{flags} {named} {given}".split()
        args = train.parse([f"@recipes/{recipe}.args", *words])
        lora = (args.lora_rank, args.lora_alpha)
        module = module_of(model, args.num_agents, args.bits, *lora)
        for base in module.team.bases:
            base.memory = args.memory or card * 1e9 / 2**30
        training, evaluation = (size / 1e9 for size in estimate.expected(module, args))
        if max(training, evaluation) <= FREE * card:
            told = f"`{' '.join(words)}`" if words else "as it is"
            return f"{told}: {training:.1f}, {evaluation:.1f} GB"
    return "does not fit"


def main() -> None:
    estimate.some = lambda: 100  # problems that an evaluation plays at once on a card
    print("| recipe | " + " | ".join(f"{card} GB" for card in CARDS) + " |")
    print("|---" * (len(CARDS) + 1) + "|")
    for recipe in RECIPES:
        cells = [plan(recipe, card) for card in CARDS]
        print(f"| `{recipe}` | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
