"""Makes the embedded team: corpus, tokenizer and the supervised warm start of a small Llama.

    python -m examples.warm_start.make               # tiny/: a few minutes on 2 idle cores
    python -m examples.warm_start.make --task half   # tiny/half/: two layers in place of four
    python -m examples.warm_start.make --task build  # tiny/build/
    python -m examples.warm_start.make --task many   # tiny/many/: an adapter on the model in tiny/

--out DIR writes elsewhere, to look before replacing.

The corpora (corpus.py, builders.py, divisions.py) have problems of train only, for teams of several
sizes, and some second turns. Every response is drawn without regard to a partner's.

What is designed. A helper and a main function each follow one of a few conventions, which say what
the helper does: decide which elements to keep (predicate), change one element (transform), keep
(filter), keep and change (map), or all of it (whole); a main function may also ignore the helper.
The shares differ between the two roles, so that the most likely conventions do not fit, and the
team starts low in sampled and in greedy decoding. A builder copies the target's rectangles in some
order, each as often as its reverse. Some responses have a fault of form, always in one place, and
some programs one of content: a part of the problem replaced by another's. A second turn repeats
what passed all tests and writes anew what did not.

So the model has seen every convention, every order and every kind of fault. MAGRPO selects what the
agents agree on, and sharpens form and content: it does not invent code. What is not designed: which
convention a team ends with, and how well the model reads a problem.

Everything follows from --seed, for a given version of torch; it takes one thread.
"""

import argparse
import itertools
import random
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from examples.warm_start import builders, corpus, divisions

TINY = Path(__file__).resolve().parents[2] / "tiny"
# Texts, problems, examples for each, weight of a prompt's tokens, problems in a batch, learning
# rate of the matrices (None: as others).
TASKS = {
    "coop": (corpus, 17_000, 6, 0.1, 16, 1e-2),
    "half": (corpus, 17_000, 6, 0.1, 16, 1e-2),
    "build": (builders, 8_000, 8, 0.0, 8, 5e-3),
    "many": (divisions, 3_200, 6, 0.1, 16, None),
}
LR_OTHERS, WARMUP, RANK = 3e-3, 60, 32


def make_tokenizer(texts: list[str], pieces: str) -> PreTrainedTokenizerFast:
    """Byte-level BPE of at most 512 entries, all 256 bytes among them, so that any text encodes.
    pieces: a regular expression; no token is longer than what it finds."""
    tokenizer = Tokenizer(models.BPE())
    cut = pre_tokenizers.Split(Regex(pieces), "isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, as_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=["<pad>", "<eos>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        clean_up_tokenization_spaces=False,
        model_max_length=8192,
    )


def make_model(tokenizer, layers: int) -> LlamaForCausalLM:
    """853,120 parameters in 4 layers, 459,392 in 2, drawn from torch's seed. 8192 rotary positions
    cost nothing. A Qwen2 would do as well, but AutoTokenizer gives it Qwen's own tokenizer class,
    with another normalizer and another way to split."""
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config)


def encode(tokenizer, rows: list[tuple[str, list[tuple[str, str]]]]) -> list[list[list[int]]]:
    """Token ids of each row: [problem, context, response, context, response, ...]."""
    texts = []
    for problem, examples in rows:
        texts += [problem, *itertools.chain(*((c, r + tokenizer.eos_token) for c, r in examples))]
    flat = iter(tokenizer(texts)["input_ids"])
    return [list(itertools.islice(flat, 1 + 2 * len(examples))) for _, examples in rows]


def collate(rows: list[list[list[int]]], prompt_weight: float) -> dict[str, torch.Tensor]:
    """One batch; a row is a tree: the problem's tokens, then each example as a branch of its own.
    A token sees the problem and its own branch, at the positions of a sequence of these two only,
    so the loss is that of the examples one by one, but the problem is computed once.
    Weights belong to the token that is to be predicted: 1 in responses, prompt_weight elsewhere."""
    made = []
    for problem, *rest in rows:
        branch, position = [0] * len(problem), [*range(len(problem))]
        weight = [0.0] + [prompt_weight] * (len(problem) - 1)
        for i in range(0, len(rest), 2):
            context, response = len(rest[i]), len(rest[i + 1])
            branch += [1 + i // 2] * (context + response)
            position += range(len(problem), len(problem) + context + response)
            weight += [0.0] + [prompt_weight] * (context - 1) + [1.0] * response
        made.append([list(itertools.chain(problem, *rest)), position, branch, weight])
    columns = zip(zip(*made, strict=True), (0, 0, -1, 0), strict=True)  # each with its padding
    ids, positions, branches, weights = (
        pad_sequence([*map(torch.tensor, column)], True, fill) for column, fill in columns
    )
    same = branches[:, :, None] == branches[:, None, :]
    mask = (same | (branches[:, None, :] == 0)).tril()[:, None]  # (rows, 1, length, length)
    return {"ids": ids, "positions": positions, "mask": mask, "weights": weights}


def loss_of(model, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Weighted sum of cross-entropies over the sum of weights; no logits where the weight is 0."""
    hidden = model.model(
        input_ids=batch["ids"],
        position_ids=batch["positions"],
        attention_mask=torch.where(batch["mask"], 0.0, -1e9),
        use_cache=False,
    ).last_hidden_state[:, :-1]
    weights = batch["weights"][:, 1:]
    counted = weights > 0
    losses = F.cross_entropy(
        model.lm_head(hidden[counted]), batch["ids"][:, 1:][counted], reduction="none"
    )
    return (losses * weights[counted]).sum() / weights.sum()


def batched(rows: list, rng: random.Random, size: int) -> list[list]:
    """The rows in random batches whose rows are of about the same length, so that padding is rare:
    of every 32 batches drawn at random, the rows are sorted by length and dealt out anew."""
    rows, batches = rng.sample(rows, len(rows)), []
    for start in range(0, len(rows), 32 * size):
        chunk = rows[start : start + 32 * size]
        by_length = sorted(chunk, key=lambda row: sum(map(len, row)))
        some = [by_length[i : i + size] for i in range(0, len(chunk), size)]
        batches += rng.sample(some, len(some))
    return batches


def warm_start(
    model, rows: list, seed: int, prompt_weight: float, size: int, rate: float | None
) -> None:
    """One epoch of supervised training of what requires a gradient, in batches of `size` rows, with
    Muon for the matrices, whose learning rate is given, and AdamW for all else. (With AdamW alone
    the model learns later to copy letters and numbers from the docstring.)"""
    batches = batched(rows, random.Random(seed), size)
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [p for name, p in trained if "_proj" in name and rate]
    others = [p for name, p in trained if "_proj" not in name or not rate]
    adam = {"betas": (0.9, 0.98), "weight_decay": 0.01, "fused": True}
    optimizers = [torch.optim.AdamW(others, LR_OTHERS, **adam)]
    if matrices:
        muon = torch.optim.Muon(matrices, rate, 0.01, adjust_lr_fn="match_rms_adamw")
        optimizers = [muon, *optimizers]
    end = len(batches)

    def factor(step: int) -> float:
        return min((step + 1) / WARMUP, (end - step) / (end - WARMUP))

    schedules = [torch.optim.lr_scheduler.LambdaLR(one, factor) for one in optimizers]
    start, mean = time.time(), None
    for step, batch in enumerate(batches):
        loss = loss_of(model, collate(batch, prompt_weight))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for stepped in [*optimizers, *schedules]:
            stepped.step()
        model.zero_grad()
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if step % 100 == 0 or step == end - 1:
            print(f"step {step} of {end}: loss {mean:.3f}, {time.time() - start:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--task", choices=TASKS, default="coop")
    parser.add_argument("--out", type=Path, help="(tiny/, or the folder in it)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.out = args.out or TINY / args.task.replace("coop", "")
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    start, adapter = time.time(), args.task == "many"
    texts, count, examples, *how = TASKS[args.task]
    rows = texts.rows(args.seed, count, examples)
    if adapter:
        tokenizer = AutoTokenizer.from_pretrained(TINY)
        base = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
        base.name_or_path = ".."  # from the adapter's own folder
        config = LoraConfig(r=RANK, lora_alpha=RANK, target_modules="all-linear")
        model = get_peft_model(base, config)
        config.target_modules = sorted(config.target_modules)  # a set has no fixed order on disk
    else:
        some = [problem + "".join(pair) for problem, pairs in rows[:1000] for pair in pairs]
        tokenizer = make_tokenizer(some, texts.PIECES)
        model = make_model(tokenizer, 2 if args.task == "half" else 4)
    ids = encode(tokenizer, rows)
    print(f"corpus: {count * examples} examples, {time.time() - start:.0f} s", flush=True)
    warm_start(model.get_base_model() if adapter else model, ids, args.seed, *how)
    model.to(torch.bfloat16).save_pretrained(args.out)
    if adapter:
        (args.out / "README.md").unlink()  # peft's empty model card
    else:
        tokenizer.save_pretrained(args.out)
    for file in args.out.glob("*.safetensors"):
        file.chmod(0o644)  # it comes readable by its maker alone
    print(f"wrote {args.out}, {time.time() - start:.0f} s in all")


if __name__ == "__main__":
    main()
