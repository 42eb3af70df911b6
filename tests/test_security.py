"""Nothing that was sent runs, nothing that is secret is written: python -m pytest
tests/test_security.py

Elsewhere: what a generated program can reach (test_sandbox.py), the expert's key and its URL
(test_feedback.py), checkpoints, adapters and models that are refused (test_bad_input.py).
"""

import os
from pathlib import Path

import pytest
import torch
from helpers import SMALL, output_of, refused, resume, run_eval, train_run, write_run
from tensorboard import plugin_util
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from test_train import command

SECRETS = {
    name: f"sk-{name.lower()}-0123456789"
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN")
}


class Bomb:
    """A pickle that does something when it is read."""

    def __reduce__(self):
        return (Path.touch, (Path("it-ran"),))


def texts(run):
    """What TensorBoard has of a run's samples and flags."""
    events = EventAccumulator(str(run), size_guidance={"tensors": 0})
    events.Reload()
    tags = ("sample/text_summary", "flags/text_summary")
    return [events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in tags]


def test_a_checkpoint_and_an_adapter_run_no_code(tmp_path, capsys):
    """torch and peft would run it, if they were asked to, or left to."""
    mark = Path("it-ran")
    run = train_run(tmp_path / "run", SMALL)
    checkpoint = run / "checkpoints/last.ckpt"
    torch.save({"state_dict": {}, "global_step": 1, "x": Bomb()}, checkpoint)
    torch.load(checkpoint, weights_only=False)
    assert mark.exists(), "this is no bomb"
    mark.unlink()
    with pytest.raises(SystemExit):
        resume(run, "--max-steps 2")
    assert "UnpicklingError" in capsys.readouterr().err
    agent = run / "agents/0"
    (agent / "adapter_model.safetensors").unlink()
    torch.save({"a": Bomb()}, agent / "adapter_model.bin")  # peft would read it
    assert "adapter_model.safetensors" in refused(capsys, SMALL, "--init", agent)
    assert not mark.exists()


def test_secrets_are_not_written_and_only_named_files_run(tmp_path):
    """Modules in the working directory bear the names of ours and of others; the environment holds
    keys. A run leaves no trace of the keys, and imports none of the modules but the one named."""
    for name in ("tasks", "rewards", "names", "json", "torch", "sitecustomize", "conftest"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'it-ran')!r}, 'w')")
    (tmp_path / "mine.py").write_text(
        "def reward(item, responses): return 1.0 * len(responses[0])\nreward.maximum = 999.0\n"
    )
    start = command(SMALL, "--run run --reward mine.py:reward")
    done = output_of(start, cwd=tmp_path, env=os.environ | SECRETS, timeout=900)
    written = [p.read_bytes() for p in (tmp_path / "runs").rglob("*") if p.is_file()]
    assert len(written) > 6
    everything = b"".join([(done.stdout + done.stderr).encode(), *written])
    for secret in SECRETS.values():
        assert secret.encode() not in everything
    assert not (tmp_path / "it-ran").exists()


TASK = r"""
EVIL = "<script>alert(1)</script> ![x](http://evil/x.png) </pre> | a | b\n```\n<i>out</i>"
class Task:
    reward = "FILE:reward"
    def __init__(self, data=None, num_agents=2): pass
    def items(self, split): return [{"task_id": EVIL}]
    def observe(self, agent, item, history): return item["task_id"]
def reward(item, responses): return 0.0
reward.maximum = 1.0
"""


def test_tensorboard_shows_texts_as_texts(tmp_path):
    """A data set's text, a model's or a flag's does not become HTML."""
    file = tmp_path / "mine.py"
    file.write_text(TASK.replace("FILE", str(file)))
    run = train_run(tmp_path / "<b>a|b", f"{SMALL} --task {file}:Task")
    for text in texts(run):
        assert all(line.startswith("    ") for line in text.splitlines())  # a block of code
    sample, flags = map(plugin_util.markdown_to_safe_html, texts(run))
    assert sample.count("<") == flags.count("<") == 4  # pre, code
    assert "&lt;script&gt;alert(1)" in sample
    assert "&lt;b&gt;a|b" in flags


@pytest.mark.parametrize("command", ["doctor", "compare", "page"])
def test_what_reads_a_run_executes_no_plug_in(command, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("open(__file__ + '.ran', 'w').close()")
    run_eval(command, write_run(tmp_path / "run", task=f"{file}:Task"))
    assert list(tmp_path.glob("*.ran")) == []
