"""Every diff applies to a clean copy and trains there; what it computes is checked by literals:
python -m pytest tests/examples/test_ablations.py
"""

import importlib.util
import itertools
import math
import os
import re
import shutil
import sys
from types import SimpleNamespace

import pytest
import test_magrpo
import torch
from helpers import ROOT, assert_close, flags, output_of, small_model
from test_magrpo import long_answers, make

import magrpo
from policies.decoding import Response
from policies.logprobs import Row
from policies.team import Team
from training.run_folder import read_records

DIFFS = sorted((ROOT / "examples").glob("[ac][br]*/*.diff"))  # ablations/ and credit/
CHOSEN = {
    "median": "--advantage median",
    "maxrl": "--advantage maxrl",
    "pooled": "--advantage pooled --reward examples/own_pay.py:alone",
    "counterfactual": "--advantage batch --reward examples/own_pay.py:difference",
    "turn_index": "--advantage turn --task examples/credit/early.py:Early --branching chain",
    "critic": "--advantage central --num-generations 1",
}
SMALL = "--batch-size 2 --num-generations 4 --eval-limit none --max-new-tokens 24 --max-steps 2"
LEFT_BEHIND = shutil.ignore_patterns(".*", "runs", "tests", "docs", "bench", "__pycache__")


def run(folder, diff):
    """The metrics of two steps of a copy of the sources, with the diff applied."""
    chosen = []
    shutil.copytree(ROOT, folder, ignore=LEFT_BEHIND)
    if diff:
        output_of(["git", "apply", diff], cwd=folder)
        chosen = CHOSEN.get(diff.stem, "").split()
    command = [sys.executable, "train.py", *SMALL.split(), *chosen, "--run", "x"]
    output_of(command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""})
    return read_records(folder / "runs/x/metrics.jsonl")


@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.stem)
def test_it_applies(diff):
    output_of(["git", "apply", "--check", diff], cwd=ROOT)
    changes = re.findall("^[+-](?![+-])", diff.read_text(), re.MULTILINE)
    if diff.parent.name == "credit":
        assert len(changes) <= {"critic": 90}.get(diff.stem, 20)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return run(tmp_path_factory.mktemp("plain") / "code", None)


@pytest.mark.slow
@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: diff.stem)
def test_it_trains_otherwise(diff, plain, tmp_path):
    first, second = run(tmp_path / "code", diff)
    norms, plain_norms = ([row["grad_norm/0"], row["grad_norm/1"]] for row in (first, plain[0]))
    if diff.stem != "token_credit":  # this model may write nothing that is not kept
        assert norms != pytest.approx(plain_norms, rel=1e-4)
    assert second["skipped"] == 0


# --- what they compute ----------------------------------------------------------------------------


def patched(name, folder):
    """The module magrpo with a diff applied. What it imports is not patched."""
    shutil.copy(ROOT / "magrpo.py", folder)
    [diff] = [diff for diff in DIFFS if diff.stem == name]
    output_of(["git", "apply", "--include", "magrpo.py", diff], cwd=folder)
    spec = importlib.util.spec_from_file_location(f"magrpo_{name}", folder / "magrpo.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(text):
    """The numbers of a text whose rows are parted by bars."""
    rows = [list(map(float, row.split())) for row in text.split("|")]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize(
    "name, returns, want",
    [
        ("maxrl", "0 0 0 1 | 0 0 0 0 | 2 2 1 3", "-1 -1 -1 3 | 0 0 0 0 | 0 0 -0.5 0.5"),
        (
            "pooled",
            "0.7 0.7 0.7 0.7 0.7 0.7 | 0.7 0.7 0.7 0.7 0.7 0.7",
            "0 0 0 0 0 0 | 0 0 0 0 0 0",
        ),
        ("pooled", "0 20 | 40 60", "-1.34164 -0.44721 | 0.44721 1.34164"),  # one baseline for all
    ],
)
def test_an_advantage_is_the_written_one(name, returns, want, tmp_path):
    got = patched(name, tmp_path).advantages(table(returns), name)
    torch.testing.assert_close(got, table(want), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "level, logs",  # of the ratios; 0: it has left its bounds in the direction of the advantage
    [("token", "0 0 0.07 | 0.2 0 0.9"), ("sequence", "0 0 0 | 0.065 0.065 0.065")],
)
def test_the_clipped_ratio_has_the_written_gradient(level, logs, tmp_path):
    module = patched("clipped", tmp_path)
    module.LEVEL = level
    module.CLIP = (0.05, 0.1)
    old = table("-1 -2 -3 | -4 -5 -6")
    logps = (old + table("0.2 0.1 0.07 | 0.2 -0.07 0.9")).requires_grad_()
    mask = table("1.5 1.5 1.5 | 1.5 1.5 0")  # a server's
    coef = table("1 | -2")
    (got,) = torch.autograd.grad(module.clipped_loss(logps, old, mask, coef[:, 0]), logps)
    ratios = table(logs).exp() * (table(logs) != 0)
    torch.testing.assert_close(got, -mask * ratios * coef)
    still = module.clipped_loss(logps, logps.detach(), mask, coef[:, 0])
    (got,) = torch.autograd.grad(still, logps)
    torch.testing.assert_close(got, -mask * coef)  # Eq. 2's, where nothing has moved


def test_what_was_cut_off_teaches_nothing(tmp_path):
    """Nor does a response whose partners were all cut off, or whose next turn follows on one."""
    module = patched("truncated", tmp_path)

    def node(rewards, ended):
        """A node of two agents with three samples each; ended: "+" or "-" for each of them."""
        flags = [[Response([1], "", [], 0.0, sign == "+") for sign in own] for own in ended.split()]
        made = module.Node(0, {}, (), [], {}, [], 3, responses=flags)
        made.joints = module.arrangement(2, 3, math.inf)
        made.rewards = table(rewards).expand(2, -1)
        return made

    joint = "1 2 3  4 5 60  700 8 9"  # of agent 0's samples, by agent 1's
    root, last = node(joint, "++- +-+"), node(joint, "++- +-+")
    child = node("5 5 5  5 5 5  9 9 9", "++- +++")
    root.children = [child, None, None]
    for turns, optimism, wanted in (
        ([[root], [child]], 0.5, "7 nan nan | 7.5 nan nan"),
        ([[last]], 1.0, "3 60 nan | 4 nan 60"),
    ):
        module.back_up(turns, 1.0, optimism)
        torch.testing.assert_close(turns[0][0].complete, table(wanted), equal_nan=True)
    logged = float(table(joint).mean()) + 57 / 9 / 3  # it counts every joint response
    assert root.value == pytest.approx(logged)
    assert float(root.returns.mean()) == pytest.approx(logged)
    stub = SimpleNamespace(groups=lambda: [[last]], algorithm=SimpleNamespace(num_generations=3))
    stub.algorithm.advantage = "mean"
    module.MAGRPO.set_advantages(stub)
    torch.testing.assert_close(last.advantages, table("-28.5 28.5 0 | -28 0 28"))


# --- credit ---------------------------------------------------------------------------------------


def nodes_of(module, *returns):
    """Nodes of the returns (n, S) that are written."""
    nodes = []
    for rows in returns:
        node = module.Node(0, {}, (), [], {}, [], table(rows).shape[1], parts=[{"reward": 1.0}])
        node.returns = table(rows)
        nodes.append(node)
    return nodes


def test_counterfactual_credit_is_over_the_deviation_of_the_batch(tmp_path):
    module = patched("counterfactual", tmp_path)
    nodes = nodes_of(module, "0 2 | 5 5", "4 6 | 5 5")
    stub = SimpleNamespace(groups=lambda: [[node] for node in nodes], turns=[nodes])
    stub.algorithm = SimpleNamespace(num_generations=2, advantage="batch", branching="tree")
    module.MAGRPO.set_advantages(stub)
    got = torch.stack([node.advantages for node in nodes]) * (5**0.5 + 1e-4)
    torch.testing.assert_close(got.flatten(1), table("-3 -1 0 0 | 1 3 0 0"))
    stub.turns.append(nodes_of(module, "4 | 0"))  # of a chain: three lines of four are over
    stub.algorithm.branching = "chain"
    module.MAGRPO.set_advantages(stub)
    torch.testing.assert_close(stub.turns[1][0].advantages, table("3 | 0") / (3**0.5 + 1e-4))


@pytest.mark.parametrize(
    "discounted, returns, want",
    [(True, "6 12 6", "-4.5 1.5 3"), (False, "11 12 6", "-7 1.5 3")],
)
def test_a_baseline_of_turns_is_subtracted_as_often_as_a_line_has_turns(
    discounted, returns, want, tmp_path
):
    """Three lines of one agent. They earn 1, 2, 6 at turn 0. Two go on and earn 10 and 20.

    Where the first line's turn 0 was not scored, gamma does not count what follows.
    """
    module = patched("turn_index", tmp_path)
    root, *later = nodes_of(module, returns, "10", "20")
    root.children = [*later, None]
    for node in later:
        node.values = node.returns[:, 0]
        node.discounted = node is later[1] or discounted
    stub = SimpleNamespace(groups=lambda: [[root], later])
    stub.algorithm = SimpleNamespace(num_generations=3, advantage="turn")
    stub.rollout = SimpleNamespace(episode=SimpleNamespace(gamma=0.5))
    stub.later = lambda node, name: module.MAGRPO.later(stub, node, name)
    module.MAGRPO.set_advantages(stub)
    assert [float(node.advantages) for node in later] == [-5, 5]
    torch.testing.assert_close(root.advantages, table(want))


@pytest.mark.parametrize(
    "begun, text, credit",  # 1 for a character that has credit
    [
        ("", "x = 1\ndef aux(n):\n    return n\nn", "000000" + 24 * "1" + "00"),
        ("def aux(n):", "\n    return n", 13 * "1"),
        ("", "K = 2\n\ndef aux(n):\n    return K", "11111" + "00" + 24 * "1"),
        ("", "def aux(", 8 * "1"),
        ("", "MAX_N = 5\nN = 5\ndef aux(n):\n    return N", 10 * "0" + "111110" + 24 * "1"),
        ("", "K = 2\ndef aux(n):\n    \n    return K", 35 * "1"),  # it is read without the blanks
    ],
)
def test_a_token_outside_of_what_the_program_keeps_has_no_credit(begun, text, credit, tmp_path):
    """Here a token is a character. One stands for a text that ends the response, one for its end.
    A text of which nothing is kept counts whole."""
    module = patched("token_credit", tmp_path)
    spans = [(number, min(number + 1, len(text) + 1)) for number in range(len(text) + 2)]
    codec = SimpleNamespace(spans=lambda tokens: spans)
    stub = SimpleNamespace(algorithm=SimpleNamespace(num_generations=3, kl_coef=0.0))
    stub.team = SimpleNamespace(size=2, base_of=[SimpleNamespace(codec=codec)], engine=None)
    stub.rollout = SimpleNamespace(task=SimpleNamespace(begin=lambda agent, item: begun))
    stub.manual_backward = lambda loss: loss.backward()
    node = SimpleNamespace(item={"entry_point": "solve", "prompt": "def solve(xs):\n"})
    row = Row(0, (), [], advantage=2.0)
    row.credit = module.MAGRPO.credit(stub, node, 0, Response([], begun + text, [], [], True))
    assert row.credit.tolist() == list(map(float, credit + "11"))
    logps = torch.zeros(1, len(credit) + 2, requires_grad=True)
    module.MAGRPO.add_gradients(stub, [row], logps, torch.ones_like(logps))
    assert torch.equal(logps.grad[0], -2.0 * row.credit)


@pytest.mark.parametrize(
    "mode, argv",
    [
        ("central", "--num-generations 1"),
        ("decentral", "--turns 2 --branching chain"),
        ("central", "--turns 2 --gamma 0.5 --kl-coef 0.1"),
    ],
)
def test_a_critic_is_subtracted_and_then_fitted_to_the_returns(mode, argv, tmp_path, monkeypatch):
    """Also where memory runs out in the update, which is then done again."""

    def chosen(*argv):
        args = flags(*argv)
        args.advantage = mode
        return args

    forked = patched("critic", tmp_path).MAGRPO
    monkeypatch.setattr(forked, "global_step", 0, raising=False)
    monkeypatch.setattr(magrpo, "MAGRPO", forked)
    monkeypatch.setattr(test_magrpo, "flags", chosen)
    score = Team.score
    fails = iter([True])

    def short_of_memory(team, rows, *args, **options):
        score(team, rows, *args, **options)
        if next(fails, False):
            raise torch.OutOfMemoryError

    monkeypatch.setattr(Team, "score", short_of_memory)
    module = make(long_answers, "--grad-clip 0 --advantage none", argv, maximum=20.0)
    head = module.critic.head
    weight = torch.randn(head.weight.shape)
    bias = torch.randn(2)
    head.weight.data.copy_(weight)
    head.bias.data.copy_(bias)
    if mode == "decentral":
        size = weight.shape[1] // 2
        weight[0, size:] = weight[1, :size] = 0.0
    leaves = [weight.requires_grad_(), bias.requires_grad_()]
    module.training_step(0, 0)
    base = small_model()  # without adapters
    loss = 0.0
    nodes = [*itertools.chain(*module.turns)]
    for node in nodes:
        states = []
        for prompt in node.prompts:
            hidden = base(torch.tensor([prompt]), output_hidden_states=True).hidden_states[-1]
            centred = hidden[0, -1] - hidden[0, -1].mean()
            states.append(centred / (centred.square().mean() + 1e-5).sqrt() / len(centred))
        values = weight @ torch.cat(states).detach() + bias
        assert_close(node.advantages, node.returns - 20 * values.detach()[:, None])
        target = node.returns.mean(1) / 20
        loss = loss + (values - target.float()).square().sum() / len(nodes) / 2
    gradients = torch.autograd.grad(loss, leaves)
    if mode == "decentral":
        gradients[0][0, size:] = gradients[0][1, :size] = 0.0
    assert_close(head.weight.grad, gradients[0])
    assert_close(head.bias.grad, gradients[1])
    assert module.scalars["critic/loss"] == pytest.approx(float(loss.detach()), rel=1e-4)
    assert {"critic.head.weight", "critic.head.bias"} <= module.state_dict().keys()  # it is saved
    assert not next(fails, False)
