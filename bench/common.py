"""What the bench scripts share: one thread, models of random weights, and taking turns.

Every comparison here is a ratio of two things that ran in one process, step by step in turn, so
that a busy machine slows both. Responses have one exact length: the end-of-sequence token's id lies
outside the model's vocabulary, so no model can draw it, and no side pays for suppressing it.
"""

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
os.environ |= {"WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}

import platform
import random
import statistics
import threading
import time
import zlib
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

import train
from rewards import Scorer
from tasks import Task

torch.set_num_threads(1)
RESPONSE = 64  # tokens of every response


def make_model(folder: Path, vocab: int, hidden: int = 128, layers: int = 4, **shape) -> str:
    """Writes a Qwen2 of random weights whose tokenizer knows `vocab` words: w0, w1, ..."""
    heads = {"num_attention_heads": hidden // 32, "num_key_value_heads": hidden // 64}
    shape = {**heads, "intermediate_size": 3 * hidden, **shape}
    train.quiet()
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=vocab,
        hidden_size=hidden,
        num_hidden_layers=layers,
        **shape,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        initializer_range=0.1,  # at 0.02 every adapter's gradient is nearly 0
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = vocab, vocab + 1
    model.save_pretrained(folder)
    words = {f"w{number}": number for number in range(vocab)} | {"<eos>": vocab, "<pad>": vocab + 1}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<eos>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<eos>",
        pad_token="<pad>",
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)
    return str(folder)


def tokenizer_of(folder: str):
    """AutoTokenizer would take Qwen2's own class, which cannot hold a vocabulary of words."""
    return PreTrainedTokenizerFast.from_pretrained(folder)


def prompts(count: int, tokens: int, vocab: int) -> list[str]:
    """Prompts of exactly so many tokens, no two alike."""
    source = random.Random(0)
    return [
        " ".join(f"w{source.randrange(vocab)}" for _ in range(tokens - 1)) for _ in range(count)
    ]


def for_agent(agent: int, prompt: str) -> str:
    """What an agent sees: the prompt and, as its last token, who it is."""
    return f"{prompt} w{agent}"


def score(*responses: str) -> float:
    """A reward that costs nothing and differs between responses."""
    return zlib.crc32("|".join(responses).encode()) % 1000 / 1000


class Words(Task):
    """The bench's task. On a second turn an agent sees its prompt and its own response."""

    def __init__(self, texts: list[str], num_agents: int):
        self.texts, self.num_agents = texts, num_agents

    def items(self, split: str) -> list[dict]:
        return [{"prompt": text} for text in self.texts]

    def observe(self, agent: int, item: dict, history: list) -> str:
        return " ".join([for_agent(agent, item["prompt"]), *(response for response, _ in history)])

    def feedback(self, item: dict, responses: list[str]) -> list[str]:
        return [""] * self.num_agents


def reward(item: dict, responses: list[str]) -> float:
    return score(*responses)


reward.maximum = 1.0


class Contender:
    """A trainer that runs in its own thread, one training step each time it is asked.

    drive(gate): runs the training loop and calls gate() as each step begins. So every trainer runs
    as its users run it, and yet they take turns. Only one thread is ever awake.
    """

    def __init__(self, name: str, drive, seconds: dict[str, float]):
        self.name, self.error = name, None
        self.seconds = seconds  # of the parts of a step, filled by the trainer's hooks
        self.go, self.done = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, args=(drive,), daemon=True).start()
        self._wait()

    def _run(self, drive) -> None:
        try:
            drive(self._gate)
            raise RuntimeError(f"{self.name} ended its training")
        except BaseException as error:
            self.error = error
            self.done.release()

    def _gate(self) -> None:
        self.done.release()
        self.go.acquire()

    def _wait(self) -> None:
        self.done.acquire()
        if self.error:
            raise self.error

    def step(self) -> dict[str, float]:
        """Seconds of one step: total, rollout, reward; update is all that is left."""
        self.seconds.clear()
        start = time.perf_counter()
        self.go.release()
        self._wait()
        total = time.perf_counter() - start
        parts = {name: self.seconds.get(name, 0.0) for name in ("rollout", "reward")}
        return {"total": total, **parts, "update": total - sum(parts.values())}


def timed(function, seconds: dict[str, float], name: str):
    """The function, its time added up in seconds[name]."""

    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start

    return wrapper


def take_turns(contenders: list[Contender], rounds: int, steps: int = 1) -> dict[str, list[dict]]:
    """Seconds per step of every contender and round, after one round that is not counted."""
    found = defaultdict(list)
    for turn in range(rounds + 1):
        for contender in contenders if turn % 2 else reversed(contenders):
            parts = [contender.step() for _ in range(steps)]
            if turn:
                mean = {key: statistics.mean(part[key] for part in parts) for key in parts[0]}
                found[contender.name].append(mean)
    return found


def ours(folder: str, texts: list[str], num_agents: int, turns: int, flags: list[str]) -> Contender:
    """This project's Trainer, as train.py makes it but for what is written to disk."""
    from magrpo import MAGRPO
    from policies.team import Team

    words = ["--model", folder, "--num-agents", str(num_agents), "--turns", str(turns)]
    words += ["--joint", "aligned", "--max-new-tokens", str(RESPONSE), "--max-steps", "1000000"]
    args = train.parse([*words, "--bits", "32", "--lr-schedule", "constant", *flags])
    torch.manual_seed(0)
    team = Team(args)
    for base in team.bases:
        base.tokenizer = tokenizer_of(folder)
    task = Words(texts, num_agents)
    module = MAGRPO(team, task, Scorer(reward), task.items("train"), args)

    return contender_of(module)


def contender_of(module) -> Contender:
    """A module of ours under the Trainer that train.py makes.

    It may make one step more than the run has: its loop then waits at that step's gate.
    """
    import lightning as L

    args = module.args

    class Gate(L.Callback):
        def on_train_batch_start(self, *_):
            gates[0]()

    gates = []
    trainer = L.Trainer(
        max_steps=args.max_steps + 1,
        limit_train_batches=args.max_steps + 2,
        max_epochs=1,
        precision=args.precision,
        logger=False,
        callbacks=[Gate()],
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
    )

    def drive(gate):
        gates.append(gate)
        trainer.fit(module)

    contender = Contender("ours", drive, module.rollout.seconds)
    contender.module = module
    return contender


def machine() -> str:
    """What the figures were measured with."""
    names = ("torch", "transformers", "peft", "lightning", "comlrl", "trl")
    found = []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} -")
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return (
        f"{cpu}, {os.cpu_count()} cores, 1 thread; python {platform.python_version()}, "
        + ", ".join(found)
    )
