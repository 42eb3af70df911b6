"""A small random model, a tokenizer without files, flags, and how near two computations come."""

import contextlib
import http.server
import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

import eval as evaluation
import train
from magrpo import MAGRPO
from policies.model_names import EMBEDDED, TeamOptions
from policies.sampling import warp
from policies.shared_model import SharedModel

ROOT = Path(train.__file__).parent
EOS, VOCAB = 1, 24
SMALL = "--batch-size 1 --num-generations 2 --eval-limit 1 --max-steps 1 --max-new-tokens 8"
EPS = torch.finfo(torch.float32).eps
EPS16 = torch.finfo(torch.bfloat16).eps  # also of 8 bits: a row's largest number / 127, about

# The rest runs on a GPU, too. There a base of 8 or 4 bits computes in 16, the GPU's memory counts,
# and a second run is the same only up to rounding.
of_a_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="holds on a CPU alone")


def rounding(eps=EPS):
    """The largest difference between two ways to compute a number, as a share of its size.

    Another batch, process, library or CPU adds in another order. A chain of n roundings errs by
    at most 4 sqrt(n) eps / 2, but for about 1 in 1,000 by Hoeffding's bound and far fewer in
    fact (Higham and Mary, doi 10.1137/18M1226312), and two ways differ by twice that.
    """
    # Four layers add some 4,000 numbers on the way to a log-probability, and as many on the way
    # back. In 16 bits sums are kept in 32 on every CPU: the ten results of a layer are rounded.
    steps = 10_000 if eps == EPS else 40
    return 4 * steps**0.5 * eps


def assert_close(got, want, eps=EPS):
    """Compare numbers computed in two ways. What is below 1 is a sum or difference of numbers about
    1, as a log-probability is of logits."""
    got = torch.as_tensor(got)
    want = torch.as_tensor(want)
    size = max([1.0, *want.abs().flatten().tolist()])  # there may be no number
    torch.testing.assert_close(got, want, rtol=0, atol=rounding(eps) * size)


def assert_same_gradients(got, want):
    """Compare the gradients of all parameters, by name. Their terms cancel, so the size that counts
    is the largest of all."""
    assert got.keys() == want.keys()
    near = rounding() * max(float(gradient.abs().max()) for gradient in want.values())
    assert near > 0
    for name in want:
        torch.testing.assert_close(got[name], want[name], rtol=0, atol=near)


def move_adapters(model, std=0.2):
    """Move adapters away from their start, where they do nothing."""
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=std)


def uniforms(*shape, seed=1):
    """Return the numbers (prompts, samples, tokens) in [0, 1) that decide what is sampled."""
    random = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=random, dtype=torch.float64)


class Tokenizer:
    """One character, one token: chr(40 + id)."""

    eos_token_id = EOS
    unk_token_id = None
    chat_template = None
    added_tokens_decoder = {}  # noqa: RUF012

    def __call__(self, text, **options):
        return {"input_ids": [max(2, max(2, ord(c) - 40) % VOCAB) for c in text]}

    def get_vocab(self):
        return {chr(40 + i): i for i in range(VOCAB)}

    def decode(self, ids, **options):
        return "".join(chr(40 + i) for i in ids if i > EOS)

    def save_pretrained(self, path):
        pass


def small_model(seed=0, **changes):
    torch.manual_seed(seed)
    sizes = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 512,
    }
    model = Qwen2ForCausalLM(Qwen2Config(**sizes | changes))
    for parameter in model.parameters():  # far from uniform, so that mistakes show
        parameter.data.mul_(4.0 if parameter.dim() > 1 else 1.0)
    model.generation_config.eos_token_id = EOS
    return model


def small_base(agents=(0, 1), rank=4, seed=0, share=False, model=None):
    """A base whose adapters are not at their start, where they would do nothing."""
    model = model or small_model(seed)
    options = TeamOptions([], share, rank, 2 * rank)
    base = SharedModel(model, Tokenizer(), list(agents), options)
    move_adapters(base)
    return base


def score_alone(base, rows, sampling, backward=None, frozen=False):
    """Score each response by itself, token by token: log softmax of the whole text so far, by
    transformers' own forward pass without a mask."""
    for row in rows:
        own = sampling.of([row.agent], base.device)
        logps = []
        learns = torch.set_grad_enabled(backward is not None)
        with learns, base.acting(None if frozen else [row.agent]):
            for size, token in enumerate(row.tokens):
                ids = torch.tensor([[*row.prompt, *row.tokens[:size]]])
                logits = base.net(ids, use_cache=False).logits[0, -1]
                logps.append(warp(logits, own, torch.tensor([token])).log_softmax(-1)[token])
            logps = torch.stack(logps)
            row.scored = logps.detach()
            if backward:
                backward([row], logps[None], torch.ones(1, len(logps), dtype=torch.bool))


def watch(monkeypatch, owner, name):
    """Return a list that will hold the arguments of each call of owner.name."""
    calls = []
    function = getattr(owner, name)

    def watched(*args, **options):
        calls.append(args)
        return function(*args, **options)

    monkeypatch.setattr(owner, name, watched)
    return calls


def started(command, **options):
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **options)


def output_of(command, code=0, **options):
    """Run a command to its end, with the exit status that is expected."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == code, (done.stdout + done.stderr)[-3000:]
    return done


def table(text):
    """Return the cells of each row. Two spaces or more stand between cells."""
    return [re.split(" {2,}", row) for row in text.strip().split("\n")]


def words(*parts):
    """Return the words of a command line that is given in parts. No word may hold a space."""
    return " ".join(map(str, parts)).split()


def train_run(run, *flags):
    """Train in this process, and return the run's folder."""
    train.main(words(*flags, "--run", run))
    return run


def resume(run, *flags):
    train.main(words("--resume", run, *flags))


def run_eval(*flags):
    evaluation.main(words(*flags))


def refused(capsys, *flags, program=train):
    """Return the one line that a command in this process is refused with, with exit status 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        program.main(words(*flags))
    assert stopped.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"{program.__name__}.py: error: ")
    return lines[0]


def read_json(path):
    return json.loads(path.read_text("utf-8"))


def checkpoint_of(run):
    return torch.load(run / "checkpoints/last.ckpt", "cpu", weights_only=True)


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")


def edit_json(path, **changes):
    path.write_text(json.dumps(read_json(path) | changes), "utf-8")


def args_of(run):
    """Return the flags that a run was started with."""
    return read_json(run / "args.json")["args"]


def edit_args(run, /, **changes):
    edit_json(run / "args.json", args=args_of(run) | changes)


def copied_model(path):
    """Copy the embedded model, without the variants in its folder."""
    left_out = shutil.ignore_patterns("*py*", "build", "half", "many")
    return shutil.copytree(EMBEDDED, path, ignore=left_out)


def total(parts):
    """Return what a reward pays the team."""
    return sum(value for name, value in parts.items() if "/" not in name)


class LocalServer(http.server.ThreadingHTTPServer):
    """A server of this process; its respond(handler, body) calls handler.answer, or hangs up."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """A client that has hung up; what is raised here fails a test at the client."""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.respond(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    do_GET = do_POST

    def answer(self, code, content):
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def flags(*parts):
    """The defaults of train.py, small: G 4, 2 problems, 8 tokens."""
    small = "--num-generations 4 --batch-size 2 --max-new-tokens 8 --max-steps 4"
    return train.parse(words(small, *parts))


@contextlib.contextmanager
def at_step(number):
    """Let a module without a trainer be at a step."""
    MAGRPO.global_step = number
    try:
        yield
    finally:
        del MAGRPO.global_step


# A plug-in, of a plain class: a world that moves on, and agent 0's own pay.
WORLD = """
import numpy as np
class World:
    def items(self, split):
        words = np.array(["red", "green", "blue", "black"])
        return ({"task_id": word, "said": ""} for word in words)
    def play(self, item):
        while True:
            prompt = f"{item['task_id']} {item['said']}:"
            texts = yield dict.fromkeys(range(self.num_agents), prompt)
            yield item, texts
            item = item | {"said": texts[-1][:9]}
def pay(item, responses):
    return {"reward": len(responses[-1]) % 7, "agent/0": len(responses[0]) / 999}
pay.maximum = 9.0
"""


def world(folder):
    """Write the plug-in into a folder. Return the flags that play two turns of it."""
    file = folder / "world.py"
    file.write_text(WORLD, "utf-8")
    return f"--task {file}:World --reward {file}:pay --turns 2"


def write_run(run, seed=0, steps=(), before=None, after=None, **recorded):
    """Write what eval.py reads of a run: its args.json, metrics.jsonl and summary.json.

    before, after: its held-out measures; without `after` it is not finished. recorded: keys of
    args.json, or flags.
    """
    run.mkdir(parents=True)
    args = vars(train.parse([])) | {"seed": seed, "max_steps": len(steps)}
    record = {"code": ["aaa"], "items": {}, "maximum": 4.0, "unit": "turn", "bases": {}}
    record["max_steps"] = [len(steps)]
    for name, value in recorded.items():
        (record if name in {*record, "largest_return"} else args)[name] = value
    (run / "args.json").write_text(json.dumps(record | {"args": args}))
    write_lines(run / "metrics.jsonl", [{"step": i} | step for i, step in enumerate(steps)])
    if after:
        summary = {"steps": len(steps), "before": before or after, "after": after}
        (run / "summary.json").write_text(json.dumps(summary))
    return run
