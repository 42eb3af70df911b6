"""Bits of the frozen base where --bits does not say: python -m pytest tests/test_defaults.py"""

import pytest
import torch
from helpers import SMALL, copied_model, read_json

import eval as evaluation
import train
from policies import loading
from training import defaults

FAST, SLOW = {16: 1e-5, 32: 2e-5}, {16: 5e-5, 32: 1e-5}  # what a probe may find of 16 bits


@pytest.fixture
def probe(monkeypatch):
    """Set what the probe finds, on a machine without a GPU. Without a call no probe may run."""

    def set_seconds(seconds: dict | None) -> None:
        monkeypatch.setattr(defaults, "seconds_of_a_token", lambda: dict(seconds))

    monkeypatch.setattr(loading, "device", lambda: torch.device("cpu"))
    set_seconds(None)
    return set_seconds


def resolved(*argv) -> int:
    args = train.parse(list(argv))
    defaults.resolve_bits(args)
    return args.bits


def test_a_cpu_takes_the_faster(probe, capsys):
    probe(FAST)
    assert resolved("--model", "their/model") == 16
    assert "bits:    16, 32 bits take 2.0 times as long on this CPU" in capsys.readouterr().out
    probe(SLOW)
    assert resolved("--model", "their/model") == 32
    assert "bits:    32, 16 bits take 5.0 times as long on this CPU" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("", 32),
        ("--model their/model --lora-rank 0", 32),
        ("--model their/model --devices 2", 32),  # each would find its own
        ("--model their/model --bits 16", 16),
    ],
)
def test_where_nothing_is_probed(argv, expected, probe):
    assert resolved(*argv.split()) == expected


def test_a_card_takes_16(probe, monkeypatch):
    monkeypatch.setattr(loading, "device", lambda: torch.device("cuda", 0))
    assert resolved("--model", "their/model") == 16
    assert resolved("--model", "their/model", "--devices", "2") == 16
    assert resolved() == 32


def test_a_run_records_it_and_keeps_it(probe, tmp_path, monkeypatch):
    """Resumed or evaluated, where a probe would now find the other."""
    run = tmp_path / "run"
    model = copied_model(tmp_path / "pretrained")  # not the embedded one, as far as anyone can tell
    loaded = []
    load = loading.load_model

    def watched(name, bits, *rest):
        loaded.append(bits)
        return load(name, bits, *rest)

    monkeypatch.setattr(loading, "load_model", watched)
    probe(FAST)
    train.main([*SMALL, "--model", str(model), "--run", str(run)])
    probe(SLOW)
    train.main(["--resume", str(run), "--max-steps", "2"])
    assert read_json(run / "args.json")["args"]["bits"] == 16
    short = ["--limit", "1", "--num-samples", "1", "--max-new-tokens", "8", "--greedy"]
    evaluation.main(["--run", str(run), "--method", "naive", *short])
    assert loaded == [16, 16, 16]
