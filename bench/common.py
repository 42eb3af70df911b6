"""Tools of the bench scripts: one thread, models with random weights, and trainers in turn.

Every comparison is a ratio of two trainers that ran in one process, step by step in turn, so that
a busy machine slows both. Every response has the same length: the id of the end-of-sequence token
lies outside the model's vocabulary, so no model can draw it.
"""

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
os.environ |= {"WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}

import platform
import random
import threading
import time
import zlib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

import train
from policies.model_names import TeamOptions
from tasks import Task
from training.flags import part_of
from training.reward_runner import Scorer

torch.set_num_threads(1)
RESPONSE = 64  # tokens of every response


def make_model(
    folder: Path, vocab: int, hidden: int = 128, layers: int = 4, **shape
) -> Qwen2ForCausalLM:
    """Write and return a Qwen2 of random weights. Its tokenizer knows the words w0, w1, ..."""
    train.quiet()
    torch.manual_seed(0)
    heads = {"num_attention_heads": hidden // 32, "num_key_value_heads": hidden // 64}
    config = Qwen2Config(
        vocab_size=vocab,
        hidden_size=hidden,
        num_hidden_layers=layers,
        **{**heads, "intermediate_size": 3 * hidden, **shape},
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        initializer_range=0.1,  # at 0.02 every adapter's gradient is nearly 0
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config.eos_token_id = vocab
    model.generation_config.pad_token_id = vocab + 1
    model.save_pretrained(folder)
    words = {f"w{number}": number for number in range(vocab)}
    # An unknown word must not be the end of a sequence. The project would believe that the
    # tokenizer adds it to every text, and cut off the last token of a prompt.
    tokenizer = Tokenizer(WordLevel({**words, "<eos>": vocab, "<pad>": vocab + 1}, "w0"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<eos>",
        pad_token="<pad>",
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)
    return model


def tokenizer_of(folder: str) -> PreTrainedTokenizerFast:
    """Return a model's tokenizer. AutoTokenizer would take Qwen2's class, which splits words."""
    return PreTrainedTokenizerFast.from_pretrained(folder)


def prompts(count: int, tokens: int, vocab: int) -> list[str]:
    """Return random prompts, one token short: `for_agent` adds the last one."""
    draw = random.Random(0)
    return [" ".join(f"w{draw.randrange(vocab)}" for _ in range(tokens - 1)) for _ in range(count)]


def for_agent(agent: int, prompt: str) -> str:
    """Return the prompt with the agent's number as its last token."""
    return f"{prompt} w{agent}"


def score(*responses: str) -> float:
    """Return a checksum: a reward that costs nothing and differs between responses."""
    return zlib.crc32("|".join(responses).encode()) % 1000 / 1000


class Words(Task):
    """A task of random words. On a second turn an agent sees its prompt and its first response."""

    def __init__(self, texts: list[str], num_agents: int):
        self.texts = texts
        self.num_agents = num_agents

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
    """A trainer in a thread of its own that runs one training step whenever it is asked.

    `drive(gate)` runs the training loop and calls gate() as each step begins. So every trainer runs
    as its users run it, and yet the trainers take turns. Only one thread is ever awake.
    """

    def __init__(self, name: str, drive: Callable, seconds: dict[str, float]):
        self.name = name
        self.seconds = seconds  # of a step's rollout and reward, filled by the trainer's hooks
        self.error: BaseException | None = None
        self.go = threading.Semaphore(0)
        self.done = threading.Semaphore(0)
        threading.Thread(target=self._run, args=(drive,), daemon=True).start()
        self._wait()

    def _run(self, drive: Callable) -> None:
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
        """Run one step and return its seconds. The update is what rollout and reward leave."""
        self.seconds.clear()
        start = time.perf_counter()
        self.go.release()
        self._wait()
        total = time.perf_counter() - start
        rollout = self.seconds.get("rollout", 0.0)
        reward = self.seconds.get("reward", 0.0)
        update = total - rollout - reward
        return {"total": total, "rollout": rollout, "reward": reward, "update": update}


def timed(function: Callable, seconds: dict[str, float], name: str) -> Callable:
    """Return the function with its time added up in seconds[name]."""

    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start

    return wrapper


def take_turns(first: Contender, second: Contender, rounds: int) -> tuple[list, list]:
    """Return the seconds of both by round, after one round that is not counted."""
    first_rows = []
    second_rows = []
    for number in range(rounds + 1):
        if number % 2:  # each goes first in every other round
            first_rows.append(first.step())
            second_rows.append(second.step())
        else:
            second_rows.append(second.step())
            first_rows.append(first.step())
    return first_rows[1:], second_rows[1:]


def ours(
    folder: str, texts: list[str], num_agents: int, turns: int, flags: str, plain: bool = False
) -> Contender:
    """Return this project's trainer as train.py makes it, except that it writes no files.

    plain: without policies/fast/.
    """
    import lightning as L
    from lightning.pytorch.callbacks import LambdaCallback

    from policies.team import Team
    from training.acceleration import accelerate

    flags += f" --model {folder} --num-agents {num_agents} --turns {turns}"
    flags += f" --max-new-tokens {RESPONSE} --max-steps 1000000 --lr-schedule constant"
    args = train.parse(flags.split())
    torch.manual_seed(0)
    team = Team(part_of(args, TeamOptions))
    for base in team.bases:
        base.codec.tokenizer = tokenizer_of(folder)
    if not plain:
        accelerate(team.bases)
    task = Words(texts, num_agents)
    module = train.module_of(team, task, Scorer(reward), task.items("train"), args)

    def drive(gate: Callable) -> None:
        trainer = L.Trainer(
            max_steps=args.max_steps,
            max_epochs=1,
            precision=args.precision,
            logger=False,
            callbacks=[LambdaCallback(on_train_batch_start=lambda *_: gate())],
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
        )
        trainer.fit(module)

    return Contender("plain" if plain else "ours", drive, module.rollout.seconds)


def machine() -> str:
    """Return the processor and the versions that figures were measured with."""
    parts = [f"{processor()}, {os.cpu_count()} cores, 1 thread; python {platform.python_version()}"]
    for package in ("torch", "transformers", "peft", "lightning", "comlrl", "trl"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            parts.append(f"{package} -")
    return ", ".join(parts)


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()
