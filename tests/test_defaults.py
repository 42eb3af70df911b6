"""Bits of the frozen base where --bits does not say: python -m pytest tests/test_defaults.py"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from helpers import copied_model, edit_args, run_eval, table, watch

import train
from policies import loading
from policies.model_names import EMBEDDED, TeamOptions
from training import defaults
from training.plugins import make_task
from training.run_folder import recorded


def resolved(argv):
    args = train.parse(argv.split())
    defaults.resolve_bits(args)
    return args.bits


BITS = """
cpu   8  --model their/model                32
cpu   8  --model their/model --bits 8       8
cuda  8  --model their/model                16
cuda  8  --model their/model --devices 2    16
cuda  8  --model tiny                       32
cuda  8  --model their/model --lora-rank 0  32
cuda  7  --model their/model                32
"""


@pytest.mark.parametrize("place, capability, argv, bits", table(BITS))
def test_a_card_takes_16_where_it_computes_them(place, capability, argv, bits, monkeypatch):
    """A card of capability 7 would emulate bf16."""
    monkeypatch.setattr(loading, "device", lambda: torch.device(place))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (int(capability), 5))
    assert resolved(argv) == int(bits)


def test_a_process_works_on_its_own_card(monkeypatch):
    """What is recorded there before Lightning starts would be recorded on the first one."""
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert loading.device() == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert loading.device() == torch.device("cuda", 1)
    assert chosen == [torch.device("cuda", 1)]


def test_a_shared_policy_starts_each_of_its_agents(tmp_path):
    """Each of two bases has one. A fourth agent, which the run does not have, begins as agent 0."""
    models = [str(EMBEDDED), *[str(EMBEDDED / "many")] * 2]
    for agent in (0, 1):
        folder = tmp_path / f"agents/{agent}"
        folder.mkdir(parents=True)
        config = {"base_model_name_or_path": models[agent], "r": 16, "lora_alpha": 32}
        (folder / "adapter_config.json").write_text(json.dumps(config))
    (tmp_path / "args.json").write_text(json.dumps({"args": {"model": models}}))
    for team, want in ((models, "011"), (models + models[:1], "0110")):
        options = TeamOptions(team, share=want == "011")
        folders = defaults.agent_folders([str(tmp_path)], options)
        assert folders == [str(tmp_path / "agents" / agent) for agent in want]


def test_a_run_keeps_its_bits(trained, tmp_path, monkeypatch):
    """Resumed or evaluated, on a machine that would take others."""
    run = shutil.copytree(trained, tmp_path / "run")
    edit_args(run, bits=16)
    assert resolved(f"--resume {run} --max-steps 3") == 16
    edit_args(run, temperature=1.0)  # an older run has one number: it is evaluated alone
    with pytest.raises(ValueError, match="older code"):
        resolved(f"--resume {run} --max-steps 3")
    loaded = watch(monkeypatch, loading, "load_model")
    run_eval("--run", run, "--method naive --limit 1 --max-new-tokens 8 --greedy")
    assert [bits for _, bits, *_ in loaded] == [16]


OPTIMISM = """
--seed 1                   1
--optimism 0.5             0.5
--num-agents 3 --freeze 0  1
--freeze 0                 0
--num-agents 1             0
--joint aligned            0
"""


@pytest.mark.parametrize("argv, expected", table(OPTIMISM))
def test_optimism_is_on_where_partners_learn_and_several_joint_responses_count(argv, expected):
    assert train.parse(argv.split()).optimism == float(expected)


def test_flags_are_recorded_as_they_hold_in_every_folder(tmp_path):
    copied_model(tmp_path / "model")
    Path("rows.jsonl").touch()
    argv = "--task humaneval --data rows.jsonl --model model tiny --joint 1"
    args = train.parse(argv.split())
    make_task(args)
    flags = recorded(args)
    assert flags["data"] == str(tmp_path / "rows.jsonl")
    assert flags["model"] == [str(tmp_path / "model"), "tiny"]
    assert flags["joint"] == "aligned"
    assert flags["reward"] == "code"  # as with --reward code
