"""Bits of the frozen base where --bits does not say: python -m pytest tests/test_defaults.py"""

import json

import pytest
import torch
from helpers import SMALL, copied_model, read_json, resume, run_eval, train_run, watch

import train
from policies import loading
from training import defaults

FAST, SLOW = {16: 1e-5, 32: 2e-5}, {16: 5e-5, 32: 1e-5}  # what a probe may find of 16 bits


@pytest.fixture
def probe(monkeypatch):
    """Set what the probe finds, on a machine without a GPU. Without a call no probe may run."""

    def set_seconds(seconds: dict | None):
        monkeypatch.setattr(defaults, "seconds_of_a_token", lambda: dict(seconds))

    monkeypatch.setattr(loading, "device", lambda: torch.device("cpu"))
    set_seconds(None)
    return set_seconds


def resolved(argv: str) -> int:
    args = train.parse(argv.split())
    defaults.resolve_bits(args)
    return args.bits


def test_a_cpu_takes_the_faster(probe, capsys):
    probe(FAST)
    assert resolved("--model their/model") == 16
    assert "bits:    16, 32 bits take 2.0 times as long on this CPU" in capsys.readouterr().out
    probe(SLOW)
    assert resolved("--model their/model") == 32
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
    assert resolved(argv) == expected


def test_a_card_takes_16(probe, monkeypatch):
    capability = (8, 0)
    monkeypatch.setattr(loading, "device", lambda: torch.device("cuda", 0))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda place: capability)
    assert resolved("--model their/model") == 16
    assert resolved("--model their/model --devices 2") == 16
    assert resolved("") == 32
    capability = (7, 5)  # it would emulate bf16
    assert resolved("--model their/model") == 32


def test_a_process_works_on_its_own_card(monkeypatch):
    """What is recorded there before Lightning starts would be recorded on the first one."""
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert loading.device() == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert loading.device() == torch.device("cuda", 1)
    assert chosen == [torch.device("cuda", 1)]


def test_a_run_records_it_and_keeps_it(probe, tmp_path, monkeypatch):
    """Resumed or evaluated, where a probe would now find the other."""
    model = copied_model(tmp_path / "pretrained")  # not the embedded one, as far as anyone can tell
    loaded = watch(monkeypatch, loading, "load_model")
    probe(FAST)
    run = train_run(tmp_path / "run", SMALL, "--model", model)
    probe(SLOW)
    resume(run, "--max-steps 2")
    assert read_json(run / "args.json")["args"]["bits"] == 16
    run_eval("--run", run, "--method naive --limit 1 --max-new-tokens 8 --greedy")
    assert [bits for _, bits, *_ in loaded] == [16, 16, 16]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("", 1),
        ("--optimism 0.5", 0.5),
        ("--num-agents 3 --freeze 0", 1),
        ("--freeze 0", 0),  # one learns
        ("--num-agents 1", 0),
        ("--joint aligned", 0),
    ],
)
def test_optimism_is_on_where_partners_learn_and_several_joint_responses_count(argv, expected):
    assert train.parse(argv.split()).optimism == expected


def test_an_older_run_goes_on_without_optimism(tmp_path):
    recorded = vars(train.parse(["--optimism", "0"]))
    del recorded["optimism"]
    (tmp_path / "args.json").write_text(json.dumps({"args": recorded}))
    assert train.parse(["--resume", str(tmp_path)]).optimism == 0
