"""Which recipe fits which card, with which flags: by arithmetic, nothing is run.

    python -m bench.hardware

What stays in memory all the time (weights, and of what is trained its gradient and Adam's two
moments), from the models' published shapes, and PASS of the card for decodes and passes of the
update, which are cut to what is there.
"""

import functools
import itertools

import torch
from torch import nn
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen3Config

import train

PASS = 0.35  # policies.memory.SHARE, CUDA's own half a GiB and what the allocator cannot use
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
def sizes(name: str) -> tuple[int, int, int]:
    """Parameters in all, those that --bits 4 packs, and those of an adapter of rank 1."""
    hidden, layers, heads, keys, inner, vocab, tied = SHAPES[name]
    config = (Qwen3Config if "Qwen3" in name else Qwen2Config)(
        vocab_size=vocab,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        intermediate_size=inner,
        tie_word_embeddings=tied,
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    linear = [m for m in model.model.layers.modules() if isinstance(m, nn.Linear)]
    packed = sum(layer.weight.numel() for layer in linear)
    adapter = sum(layer.in_features + layer.out_features for layer in linear)
    return sum(p.numel() for p in model.parameters()), packed, adapter


def stays(model: str, agents: int, rank: int, bits: int) -> float:
    """GB that are taken all the time."""
    every, packed, adapter = sizes(model)
    if not rank:  # copies in 32 bits: weights, gradients, two moments
        return 16 * agents * every / 1e9
    frozen = every * bits / 8
    if bits == 4:  # the rest in 16 bits; a scale of 4 bytes for each 64 weights
        frozen = 2 * (every - packed) + packed * (0.5 + 4 / 64)
    return (frozen + 16 * agents * rank * adapter) / 1e9


def plan(recipe: str, card: int) -> str:
    """The first of the ladder's flags with which a recipe fits a card, as a cell of the table."""
    own = train.parse([f"@recipes/{recipe}.args"]).model[0]
    for model, flags in itertools.product((own, SMALLER[own]), LADDER):
        words = [*flags.split(), *(["--model", model] if model != own else [])]
        args = train.parse([f"@recipes/{recipe}.args", *words])
        taken = stays(model, args.num_agents, args.lora_rank, args.bits or 16)
        if taken <= (1 - PASS) * card:
            return f"`{' '.join(words)}`: {taken:.1f}" if words else f"as it is: {taken:.1f}"
    return "does not fit"


def main() -> None:
    print("| recipe | " + " | ".join(f"{card} GB" for card in CARDS) + " |")
    print("|---" * (len(CARDS) + 1) + "|")
    for recipe in RECIPES:
        print(f"| `{recipe}` | " + " | ".join(plan(recipe, card) for card in CARDS) + " |")


if __name__ == "__main__":
    main()
