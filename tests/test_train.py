"""The real command line, with the embedded team: python -m pytest tests/test_train.py

Runs are a few small steps. Timing (seconds/*, tokens_per_second) and memory are not compared.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import (
    ROOT,
    args_of,
    checkpoint_of,
    copied_model,
    edit_json,
    read_json,
    refused,
    resume,
    train_run,
    watch,
    words,
    world,
)

import train
from policies.codec import Codec
from policies.shared_model import SharedModel
from programs import teams
from programs.sandbox.box import Sandbox
from tasks import CodeTask
from training import threads
from training.items import repeated
from training.recorder import Recorder
from training.report import report
from training.run_folder import code_version, read_records, run_folders

SMALL = "--batch-size 2 --num-generations 2 --eval-limit 2 --max-new-tokens 40 --sample-every 2 "
SMALL += "--max-steps 2"
MOVING = "--lr 0.01 --advantage none"
PARTS = """reward/structure reward/syntax reward/tests reward/cooperation metric/pass
metric/aux_called metric/load_bearing"""
PARTS = {*PARTS.split()}
NAMES = """return reward_std frac_reward_zero_std turn_0/reward
responses tokens_per_second memory_gib seconds/rollout seconds/reward seconds/update seconds/step
completions/0/mean_length completions/0/clipped_ratio entropy/0 kl/0 grad_norm/0
completions/1/mean_length completions/1/clipped_ratio entropy/1 kl/1 grad_norm/1"""
NAMES = {*NAMES.split(), *PARTS}


def command(*flags):
    return words(sys.executable, ROOT / "train.py", *flags)


def run(path, *flags):
    return train_run(path, SMALL, *flags)


def lines(path, name):
    """Lines of a run's file, without what is timing."""
    timing = re.compile("seconds|tokens_per_second|memory_gib")
    rows = read_records(path / name)
    return [{k: v for k, v in row.items() if not timing.search(k)} for row in rows]


def adapters(path):
    """Everything in a run's checkpoint that was trained, and its optimizer's moments."""
    state = checkpoint_of(path)
    weights = dict(state["state_dict"])
    for number, moments in state["optimizer_states"][0]["state"].items():
        weights |= {f"{number}.{name}": value for name, value in moments.items()}
    return weights


def assert_same_run(path, other):
    for name in ("metrics.jsonl", "samples.jsonl"):
        assert lines(path, name) == lines(other, name)
    weights = adapters(path)
    other_weights = adapters(other)
    assert weights.keys() == other_weights.keys()
    assert all(torch.equal(weights[name], other_weights[name]) for name in weights)


def test_runs_are_found_by_name_folder_or_glob():
    """A folder of runs stands for them. A glob's other files are no runs."""
    for name in ("runs/b", "runs/a", "else/c"):
        Path(name).mkdir(parents=True)
        Path(name, "args.json").write_text('{"args": {"num_agents": 2}}', "utf-8")
    Path("b").mkdir()  # some folder, and no run
    Path("runs/empty").mkdir()
    Path("runs/compare.png").touch()
    names = ["runs/compare.png", "runs/empty", "b", "else"]
    assert list(map(str, run_folders(names))) == ["runs/b", "else/c"]
    assert list(map(str, run_folders(["runs"]))) == ["runs/a", "runs/b"]


PLUG_IN = """
from tasks import Coop
class Task(Coop):
    def items(self, split):
        return super().items(split)[COUNT:]
def short(item, texts):
    return 1.0
short.maximum = 1.0
"""


def test_where_git_refuses_the_folder_all_files_are_the_code(tmp_path, monkeypatch):
    """Another repository that the environment names is not this code's."""
    monkeypatch.setenv("GIT_DIR", str(ROOT / ".git"))
    monkeypatch.setattr("training.run_folder.ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    versions = []
    for text in ("1", "2"):
        (tmp_path / "magrpo.py").write_text(text)
        versions.append(code_version({"task": "coop", "reward": None}))
    assert versions[0] != versions[1]
    assert versions[0].startswith("no-commit+")


def test_new_files_are_code_that_was_not_committed(tmp_path, monkeypatch):
    """They may be what a plug-in imports. Tests are no code, nor is an editor's dangling link."""
    monkeypatch.setattr("training.run_folder.ROOT", tmp_path)
    commit = "git init -q; git add .; git -c user.name=A -c user.email=B commit -qm C"
    versions = []
    (tmp_path / ".#near.py").symlink_to("nobody")
    for name in ("mine.py", "tests/new.py", "lib/near.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
        if not versions:
            subprocess.run(commit, shell=True, check=True, cwd=tmp_path)
        versions.append(code_version({"task": "mine.py:Task", "reward": None}))
    assert re.fullmatch("[0-9a-f]{12}[+][0-9a-f]{12}", versions[0])  # the plug-in's folder
    assert versions[0] == versions[1] != versions[2]


def test_a_run_knows_its_code_its_items_and_its_date(tmp_path, monkeypatch, capsys):
    """The last commit of code with a hash of what differs, and a digest of each split. The chat
    template sees the date, also in a format that is not literal."""
    model = copied_model(tmp_path / "model")
    template = "{% set form = '%Y-%m-' ~ '%d' %}{{ strftime_now(form) }} {{ messages[0].content }}"
    edit_json(model / "tokenizer_config.json", chat_template=template)
    file = Path("mine.py")
    file.write_text(PLUG_IN.replace("COUNT", "0"), "utf-8")
    flags = f"--model {model} --chat-template --task mine.py:Task --reward mine.py:short"
    monkeypatch.setattr(sys, "argv", ["train.py", "--max-steps", "1"])
    path = run(tmp_path / "run", "--max-steps 1 --lr 0.01", flags)
    record = read_json(path / "args.json")
    assert shlex.split(*record["commands"]) == ["python", *sys.argv]
    assert record["code"] == [code_version(record["args"])]
    assert re.fullmatch(r"([0-9a-f]{12}|no-commit)\+[0-9a-f]{12}", record["code"][0])
    file.write_text(PLUG_IN.replace("COUNT", "-999999"), "utf-8")
    other = code_version(record["args"])
    Path("near.py").write_text("X = 1", "utf-8")  # a plug-in may import its neighbours
    assert code_version(record["args"]) != other
    Path("near.py").unlink()
    edit_json(path / "args.json", date="1999-12-31T00:00:00")
    capsys.readouterr()
    calls = watch(monkeypatch, Codec, "encode")
    monkeypatch.setattr(sys, "argv", ["train.py", "--resume"])
    resume(path, "--max-steps 2")
    said = capsys.readouterr().err
    assert f"{path} was trained by code {record['code'][0]}, and this is {other}" in said
    rates = [row["lr"] for row in lines(path, "metrics.jsonl")]
    assert rates == pytest.approx([0.01, 0.0055])  # along the longer schedule
    now = read_json(path / "args.json")
    assert (now["code"], now["max_steps"]) == ([*record["code"], other], [1, 2])
    assert (len(now["commands"]), now["date"]) == (2, "1999-12-31T00:00:00")
    codec = calls[-1][0]
    shown = codec.tokenizer.decode(codec.encode("Hi", True, 999))
    assert shown.startswith("1999-12-31 Hi")
    assert template == codec.tokenizer.chat_template  # which is saved with the agents


def test_a_run_writes_what_it_promises(trained, tmp_path):
    assert args_of(trained)["max_steps"] == 2
    files = [path for path in trained.rglob("*") if path.is_file()]
    assert len({path.stat().st_mode for path in files}) == 1  # the umask's, as args.json has it
    metrics = read_records(trained / "metrics.jsonl")
    assert [row["step"] for row in metrics] == [0, 1]
    assert metrics[0].keys() >= NAMES
    assert 0 <= metrics[0]["return"] <= 1
    schemes = [value for name, value in metrics[0].items() if name.startswith("scheme/")]
    assert sum(schemes) == pytest.approx(1)
    assert len(schemes) == len(CodeTask.schemes)
    samples = lines(trained, "samples.jsonl")
    assert {row["step"] for row in samples} == {0}
    summary = read_json(trained / "summary.json")
    assert summary["steps"] == 2
    for when in ("before", "after"):
        assert {"return", "return_se", "greedy/return", *PARTS} <= summary[when].keys()
    card = (trained / "agents/1/README.md").read_text()
    both = (summary[when]["return"] for when in ("before", "after"))
    assert "maximum: {:.3f} before, {:.3f} after".format(*both) in card
    [base] = read_json(trained / "args.json")["models"]
    assert base.startswith("tiny, 853,120 parameters, made for this project")
    assert base in card
    moved = shutil.copytree(trained, tmp_path / "my run")
    assert f"train.py --resume '{moved}' --max" in report(moved)
    assert "max_steps: 2\n" in (moved / "hparams.yaml").read_text()


def test_the_same_command_goes_on(trained, tmp_path, capsys):
    """It plays what was not played, and then does nothing."""
    path = shutil.copytree(trained, tmp_path / "run")
    flags = f"{SMALL} {MOVING} --run {path}"
    assert "has another --seed (0, and not 1)" in refused(capsys, flags, "--seed 1")
    (path / "summary.json").rename(path / "eval.json")
    train.main(words(flags))
    assert read_json(path / "summary.json")["after"] == read_json(trained / "summary.json")["after"]
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    assert path / "eval.json" not in before  # it was of the agents before
    train.main(words(flags))
    assert capsys.readouterr().out.endswith(f"{path} is finished: 2 steps\n")
    assert before == {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    assert set(read_json(path / "args.json")["max_steps"]) == {2}


@pytest.mark.parametrize(
    "argv",
    [
        "--num-agents 1 --bits 8 --checkpointing --grad-clip 0 --kl-coef 0.1 --eval-limit none",
        "WORLD --init from --freeze 1 --advantage none",
        "--logger none --num-agents 3 --turns 2 --branching chain --advantage rloo --freeze 1",
        "--model tiny tiny --bits 4 --joint aligned --eval-every 1 --lr 1e-3 2e-3",
        "--precision bf16-mixed --lora-rank 0 --normalize token --freeze 0",
        "--bits 16 --turns 2 --temperature 0.7 1.2 --top-p 0.9 --top-k 20 --warmup-steps 1 --share",
    ],
)
def test_two_steps_are_one_and_one_more(argv, trained, tmp_path, monkeypatch):
    """With every switch, and with other numbers of threads that call the reward and of the
    sandbox's workers. What a frozen agent has does not move. A checkpoint has all there is."""
    whole = tmp_path / "whole"
    part = tmp_path / "part"
    save = Recorder.save

    def copied(self, *args):
        save(self, *args)
        if self.saved == 1:
            shutil.copytree(whole, part)

    argv = argv.replace("WORLD", world(tmp_path))
    checkpointed = watch(monkeypatch, SharedModel, "set_checkpointing")
    Path("from").symlink_to(trained)
    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "save", copied)
        run(whole, "--eval-limit 1 --max-new-tokens 12 --save-every 1 --sample-every 1", argv)
    Path("from").unlink()
    early = agents(part)
    monkeypatch.setattr(threads, "THREADS", 1)
    with Sandbox(workers=1) as box:  # it has no verdicts
        monkeypatch.setattr(teams, "box", box)
        resume(part)
    assert_same_run(part, whole)
    assert bool(checkpointed) == ("--checkpointing" in argv)
    if "--warmup-steps 1" in argv:
        one, two = lines(whole, "metrics.jsonl")
        assert one["lr"] == two["lr"]  # the rate falls from the second step on
    late = agents(part)
    assert late == agents(whole)
    assert (len(late) == 1) == ("--share" in argv or "--num-agents 1" in argv)
    frozen = [int(number) for number in re.findall(r"--freeze (\d)", argv)]
    assert [number for number in early if early[number] == late[number]] == frozen
    assert bool(list(part.glob("events.*"))) == ("--logger" not in argv)
    summary = read_json(part / "summary.json")
    assert bool(summary["after"]) == ("--eval-limit" not in argv)
    for episode in summary["example"].values():
        assert [record["turn"] for record in episode] == [0, 1][: 1 + ("--turns 2" in argv)]


def agents(path):
    """Return the weights that a run saved, by agent."""
    files = path.glob("agents/*/*.safetensors")
    return {int(file.parent.name): file.read_bytes() for file in files}


@pytest.mark.parametrize(
    "code, share, chat",
    [("len(texts[0])", "0%", "--chat-template"), ("1.0", "100%", "--no-chat-template")],
)
def test_dry_run_writes_nothing_and_tells_what_has_nothing_to_teach(
    code, share, chat, tmp_path, capsys
):
    """A chain's later turns have one sample a node: their group is all lines of the problem."""
    file = tmp_path / "mine.py"
    file.write_text(f"def mine(item, texts):\n    return {code}\nmine.maximum = 999.0\n")
    model = copied_model(tmp_path / "model")
    edit_json(model / "tokenizer_config.json", chat_template="# A\n{{ messages[0].content }}")
    flags = f"--turns 2 --branching chain --num-generations 3 --reward {file}:mine --dry-run"
    train.main(words(SMALL, flags, f"--model {model}", chat))
    said, warned = capsys.readouterr()
    is_raw = chat == "--no-chat-template"
    assert ("prompts go to it as raw text" in warned) == is_raw
    for text in (
        "memory expected",
        "turn 0: 18 joint responses, mean reward",
        "agent 1 was asked:\n" + ("" if is_raw else "# A\n") + "def ",
        f"so that they teach nothing: {share}",
    ):
        assert text in said
    assert not Path("runs").exists()


def test_a_step_is_a_line_that_says_if_nothing_was_taught(tmp_path, capsys):
    recorder = Recorder(tmp_path, {}, {"args": {"max_steps": 20}})
    metrics = {"return": 0.25, "reward/a": 0.5, "metric/b": 0.5, "seconds/step": 3.0}
    metrics["agent/0/reward"] = -1.0  # where the team's sum is 0, it alone tells anything
    for share, text in (
        (0.1, ""),
        (0, ", nothing to learn from: no response had an advantage (docs/metrics.md)"),
    ):
        recorder.tell(10, metrics | {"groups_with_gradient": share})
        said = capsys.readouterr().out
        said_of_parts = f"return 0.250 of 1, a 0.50, agent/0/reward -1.00{text}"
        assert said == f"step 10 of 20: {said_of_parts} (3.0 s, 0.5 minutes left)\n"


def test_a_part_that_was_met_is_0_where_it_does_not_occur(tmp_path):
    recorder = Recorder(tmp_path, {}, {"args": {}})
    first, second, third = [{"reward_std": 1, "reward/a": 1}, {"scheme/b": 1, "metric/c": 1}, {}]
    for line in (first, second, third):
        recorder.fill("step", line)
    assert second == {"scheme/b": 1, "metric/c": 1, "reward/a": 0}
    assert third == dict.fromkeys(second, 0)
    recorder.fill("held out", first)
    assert first.keys() == {"reward_std", "reward/a"}


def test_a_part_that_was_met_is_0_before_and_after_sampled_and_greedily(tmp_path):
    """So seeds have the same parts. Each response here has a part of its own length."""
    reward = tmp_path / "lengths.py"
    reward.write_text(
        "def pay(item, responses):\n"
        "    return {'reward': 0.5, f'metric/{len(responses[0])}': 1.0}\n"
        "pay.maximum = 1.0\n"
    )
    run = train_run(tmp_path / "run", f"{SMALL} --lr 0.1 --advantage none --reward {reward}:pay")
    summary = read_json(run / "summary.json")
    before, after = summary["before"], summary["after"]
    assert before.keys() == after.keys()
    sampled = {name for name in after if name.startswith("metric/")}
    assert {f"greedy/{name}" for name in sampled} < after.keys()
    for name in ("greedy/", ""):
        for measures in (before, after):
            parts = [measures[name + part] for part in sampled]
            assert sum(parts) == pytest.approx(1)
            assert 0 in parts


def test_held_out_problems_that_stand_in_train_are_named():
    """By the text of the problem, or by all but the name where there is no text."""
    train = [{"prompt": "a", "task_id": 1}, {"x": 1, "task_id": "x"}, {"x": 2}]
    splits = {"train": train, "dev": [{"prompt": "a", "task_id": "y"}, {"x": 1}], "test": train[2:]}
    names = ["y", "{'x': 1, 'task_id': None}", "{'x': 2, 'task_id': None}"]
    assert repeated(splits, "prompt") == names


def test_flag_files_comments_and_later_flags(tmp_path):
    file = tmp_path / "x.args"
    file.write_text("# a recipe\n--lr 0.5  # high\n--num-generations 3\n")
    args = train.parse([f"@{file}", "--lr", "0.25"])
    assert (args.lr, args.num_generations) == ([0.25, 0.25], 3)
    assert train.parse(["--model", "c", "d", "--model", "e"]).model == ["e", "e"]
    file.write_text("--model a b\n")
    assert train.parse([f"@{file}", "--model", "c"]).model == ["c", "c"]
    assert train.parse(["--model", "c", "d", f"@{file}"]).model == ["a", "b"]
