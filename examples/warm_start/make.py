"""Make the embedded team. It has a corpus, a tokenizer and the warm start of a small Llama.

    python -m examples.warm_start.make               # tiny/: a few minutes on 2 idle cores
    python -m examples.warm_start.make --task half   # tiny/half/: two layers instead of four
    python -m examples.warm_start.make --task build  # tiny/build/
    python -m examples.warm_start.make --task many   # tiny/many/: the model in tiny/, trained on

The weights are the same each time, for a given version of torch. It takes one thread.

The corpora (corpus.py, builders.py, divisions.py) have problems of train only, for teams of several
sizes, and some second turns. Every response is drawn without regard to a partner's.

These things are designed.

1. A helper and a main function each follow one of a few conventions. It says what the helper does.
   A helper decides which elements to keep (predicate), changes one element (transform), keeps
   (filter), keeps and changes (map), or does all of it (whole). A main function may also ignore the
   helper.
2. The shares differ between the two roles, so that the most likely conventions do not fit. The team
   starts low in sampled and in greedy decoding.
3. A builder copies the target's rectangles in some order, each as often as its reverse.
4. Some responses have a fault of form, always in one place. Some programs have a fault of content,
   where a part of the problem is replaced by another's.
5. A second turn repeats what passed all tests and writes anew what did not.

So the model has seen every convention, every order and every kind of fault. MAGRPO selects what the
agents agree on, and sharpens form and content. It does not invent code. Two things are not
designed. One is the convention that a team ends with, the other how well the model reads a problem.
"""

import argparse
import random
from dataclasses import dataclass
from types import ModuleType

import policies  # noqa: F401  it says how threads wait, and keeps libraries quiet

# isort: split
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
from examples.warm_start.problems import TINY

WARMUP = 60  # steps
RANK = 32  # of the adapter


@dataclass
class Recipe:
    """How one model is made."""

    corpus: ModuleType
    problems: int
    examples: int  # for each problem
    prompt_weight: float  # weight of a prompt's tokens, where a response's have 1
    batch_size: int  # problems
    matrix_lr: float | None  # of Muon. Without it AdamW trains the matrices, too.
    layers: int = 4


TASKS = {
    "coop": Recipe(corpus, 17_000, 6, 0.1, 16, 1e-2),
    "half": Recipe(corpus, 17_000, 6, 0.1, 16, 1e-2, layers=2),
    "build": Recipe(builders, 8_000, 8, 0.0, 8, 5e-3),
    "many": Recipe(divisions, 3_200, 6, 0.1, 16, None),
}


def make_tokenizer(texts, pieces):
    """Return a byte-level BPE of 512 entries, all 256 bytes among them.

    So any text encodes. `pieces` is a regular expression. No token is longer than its matches.
    """
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


def make_model(tokenizer, layers):
    """Return a model of 853,120 parameters in 4 layers, 459,392 in 2, drawn from torch's seed.

    8192 rotary positions cost nothing. A Qwen2 would do as well, but AutoTokenizer gives it Qwen's
    tokenizer class, with another normalizer and another way to split.
    """
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


def encode(tokenizer, rows):
    """Return the token ids of each row: [problem, nothing, context, response, context, ...]."""
    encoded = []
    for problem, examples in rows:
        texts = [problem, ""]
        for context, response in examples:
            texts += [context, response + tokenizer.eos_token]
        encoded.append(tokenizer(texts)["input_ids"])
    return encoded


def collate(rows, prompt_weight):
    """Return one batch, in which a row is a tree: the problem, then a branch for each example.

    A token sees the problem and its own branch, at the positions of a sequence of these two. So the
    loss is that of the examples one by one, but the problem is computed once. Weights belong to the
    token to predict: 1 in responses, prompt_weight elsewhere.
    """
    trees = []
    for row in rows:
        tokens = []  # (id, position, branch, weight). The problem is branch 0.
        start = 0
        pairs = zip(row[::2], row[1::2], strict=True)
        for branch, (context, response) in enumerate(pairs):
            for place, token in enumerate(context + response):
                weight = prompt_weight if place < len(context) else 1.0
                if place == 0:  # it follows no token of its branch
                    weight = 0.0
                tokens.append((token, start + place, branch, weight))
            start = len(row[0])  # every branch follows the problem
        trees.append(torch.tensor(tokens))
    ids, positions, branches, weights = pad_sequence(trees, True).unbind(2)  # (rows, length)
    same = branches[:, :, None] == branches[:, None, :]
    return {
        "ids": ids.long(),
        "positions": positions.long(),
        "mask": (same | (branches[:, None, :] == 0)).tril()[:, None],  # (rows, 1, length, length)
        "weights": weights,
    }


def loss_of(model, batch):
    """Return the weighted mean of cross-entropies. Tokens of weight 0 have no logits."""
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


def batched(rows, rng, size):
    """Return random batches of rows of about the same length, so that padding is rare.

    The rows of every 32 random batches are sorted by length and dealt out anew.
    """
    rows = rng.sample(rows, len(rows))
    batches = []
    for start in range(0, len(rows), 32 * size):
        chunk = sorted(rows[start : start + 32 * size], key=lambda row: sum(map(len, row)))
        sorted_batches = [chunk[i : i + size] for i in range(0, len(chunk), size)]
        batches += rng.sample(sorted_batches, len(sorted_batches))
    return batches


def warm_start(model, rows, recipe):
    """Train for one epoch: Muon for matrices, AdamW for all else. Both skip a frozen base.

    (With AdamW alone the model learns later to copy letters and numbers from the docstring.)
    """
    batches = batched(rows, random.Random(0), recipe.batch_size)
    end = len(batches)
    matrices = []
    others = []
    for name, parameter in model.named_parameters():
        if recipe.matrix_lr and "_proj" in name:
            matrices.append(parameter)
        else:
            others.append(parameter)
    optimizers = [torch.optim.AdamW(others, 3e-3, (0.9, 0.98), weight_decay=0.01, fused=True)]
    if matrices:
        muon = torch.optim.Muon(matrices, recipe.matrix_lr, 0.01, adjust_lr_fn="match_rms_adamw")
        optimizers.append(muon)

    def factor(step):
        return min((step + 1) / WARMUP, (end - step) / (end - WARMUP))

    schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, factor) for optimizer in optimizers]
    for step, batch in enumerate(batches):
        loss = loss_of(model, collate(batch, recipe.prompt_weight))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for part in [*optimizers, *schedules]:
            part.step()
        model.zero_grad()
        if step % 100 == 0:
            print(f"step {step} of {end}: loss {loss:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=TASKS, default="coop")
    task = parser.parse_args().task
    folder = TINY / task.replace("coop", "")
    recipe = TASKS[task]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = recipe.corpus.rows(recipe.problems, recipe.examples)
    if task == "many":
        tokenizer = AutoTokenizer.from_pretrained(TINY)
        llama = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
        config = LoraConfig(r=RANK, lora_alpha=RANK, target_modules="all-linear")
        model = get_peft_model(llama, config)  # the adapter is in llama's own layers
    else:
        texts = [problem + "".join(pair) for problem, pairs in rows[:1000] for pair in pairs]
        tokenizer = make_tokenizer(texts, recipe.corpus.PIECES)
        model = llama = make_model(tokenizer, recipe.layers)
    print(f"corpus: {recipe.problems * recipe.examples} examples")
    warm_start(llama, encode(tokenizer, rows), recipe)
    if task == "many":
        model.to(torch.bfloat16)
        # float16 keeps the sums of weights and adapter 8 times as exactly as bfloat16
        model = model.float().merge_and_unload().half()
    else:
        model.to(torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(f"wrote {folder}")


if __name__ == "__main__":
    main()
