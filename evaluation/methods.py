"""The methods that eval.py compares: how a joint response comes about, and what is recorded of it.

A method is a rollout: that of training, or one of the classes below, which differ in who sees what.
"""

import argparse
import dataclasses
import itertools
import time
from pathlib import Path

import numpy as np
import torch

from evaluation.players import single_settings, solo_settings
from evaluation.scoring import judge_of
from magrpo import EVAL, Node, Rollout, generator
from policies.decoding import Response
from policies.sampling import sampling_of
from rewards import asks
from training.flags import meant
from training.heldout import play, played, progress, worth
from training.plugins import make_task
from training.scoring import Scorer

TIMED = 10  # problems at most whose decoding is timed, one at a time


def wrote(texts: dict[int, str]) -> str:
    """How a baseline shows an agent what others wrote."""
    return "\n\n".join(f"Agent {agent} wrote:\n{text.rstrip()}" for agent, text in texts.items())


class Sequential(Rollout):
    """Agent k sees the responses of agents 0 to k-1 above its own prompt."""

    def act(self, nodes, sampling):
        size, length = self.team.size, sampling.max_new_tokens
        draws = [generator(*node.key).random((size, node.samples, length)) for node in nodes]
        for agent in range(size):
            prompts = []
            for node, s in ((n, s) for n in nodes for s in range(n.samples)):
                seen = {other: node.responses[other][s].text for other in range(agent)}
                asked = self.task.observe(agent, node.item, [])
                text = f"{wrote(seen)}\n\n{asked}" if seen else asked
                prompts.append((agent, self.encode(agent, text)))
            uniforms = torch.from_numpy(np.concatenate([numbers[agent] for numbers in draws]))
            answers = iter(self.team.sample(prompts, uniforms[:, None], sampling))
            for node in nodes:
                node.responses.append([next(answers)[0] for _ in range(node.samples)])


class Discussion(Rollout):
    """Each answers, is told what the others wrote, as feedback, and answers again; the second
    answer counts."""

    def __call__(self, items, key, samples, sampling, *_):
        agents, nodes = range(self.team.size), self.roots(items, key, samples)
        with self.timed("rollout"):
            self.act(nodes, sampling)
        for node in nodes:
            node.worlds = [node.item] * samples
            for s in range(samples):
                texts = node.texts((s,) * len(agents))
                others = ({a: texts[a] for a in agents if a != agent} for agent in agents)
                node.feedback.append([wrote(seen) for seen in others])
        last = [child for node in nodes for child in self.open(node, 1)]
        with self.timed("rollout"):
            self.act(last, sampling)
        self.score_joints(last, 1)
        return [nodes, last]


class Reference(Rollout):
    """The items' own solutions, as one response of a single agent; no model plays."""

    def act(self, nodes, sampling):
        for node in nodes:
            node.responses = [[Response([], node.item["solution"], [], 0.0, True)]]


def reference(args, task, reward) -> Reference:
    """The rollout of method reference, without a team."""
    scorer = Scorer(reward, judge_of(args) if asks(reward) else None)
    one_turn = argparse.Namespace(**vars(args) | {"turns": 1})
    return Reference(argparse.Namespace(size=1, base_of={}), task, scorer, one_turn)


def plan(args, main, team: Path | None, solo: Path | None, items: list[dict]) -> dict:
    """The methods that apply: name -> (who plays, kind of rollout, trained agents). main: the
    flags that the team plays with."""
    found, agents = {}, main.num_agents
    if agents > 1:
        found |= {"trained": ("team", Rollout, set(range(agents)))} if team else {}
        found |= {"naive": ("team", Rollout, set()), "sequential": ("team", Sequential, set())}
        found["discussion"] = ("team", Discussion, set())
    alone = solo_settings(args, main, team, solo) if solo else None
    if alone and not args.single_model:
        seat, single = "solo", alone
    else:
        seat, single = "single", single_settings(main, args.single_model)
    if plays_alone(single, items[0]):
        found["single"] = (seat, Rollout, set())
    if alone and plays_alone(alone, items[0]):
        found["single-trained"] = ("solo", Rollout, {0})
    if agents > 1 and team and not main.share:
        found |= {f"frozen-{agent}": ("team", Rollout, {agent}) for agent in range(agents)}
    if all(item.get("solution") for item in items):
        found["reference"] = (None, Reference, set())
    for name in args.method or ():
        if name not in found:
            message = f"{name}{meant(name, found)}: what applies here is {', '.join(found)}"
            needs = "trained and frozen-<i> need a team's --run, single-trained that of one agent"
            raise ValueError(f"--method {message} ({needs})")
    return {name: found[name] for name in args.method or found}


def plays_alone(flags, item: dict) -> bool:
    """Whether one agent can play the team's items: its task takes one agent, and lets agent 0 speak
    at every turn. No model plays: the responses are blank."""
    try:
        task = make_task(flags)
        for turn in range(flags.turns):
            if set(task.speakers(item, turn) or [0]) != {0}:
                return False
            item = task.advance(item, [""])
    except ValueError:  # as tasks for teams alone raise
        return False
    return True


def play_method(name: str, rollout: Rollout, items: list[dict], args) -> list[dict]:
    """A record per problem and joint response, sampled and greedy; of the data set's solutions
    there is one."""
    found, given = [], isinstance(rollout, Reference)
    for greedy in (False,) if given else (False, True)[args.greedy :]:
        samples = 1 if greedy or given else args.num_samples
        with progress(f"{name}, {'greedy' if greedy else 'sampled'}", len(items)) as bar:
            how = (args.seed, samples, sampling_of(rollout.args, greedy), bar)
            roots, *_ = play(rollout, items, *how)
        head = {"method": name, "greedy": greedy}
        for number, root in enumerate(roots):
            for sample in range(samples):
                place = {"item": number, "sample": sample}
                found.append(head | place | record(rollout, root, sample))
    return found


def record(rollout: Rollout, root: Node, sample: int) -> dict:
    """What is kept of a joint response: its turns, of which one without parts was not scored, and
    its return; and the scheme of its last turn, where the task names schemes."""
    task, gamma = rollout.task, rollout.args.gamma
    turns, node, at = [], root, sample
    while node:
        (texts, parts), item = played(node, at), node.item
        tokens = [len(responses[at].tokens) for responses in node.responses]
        turns.append({"responses": texts, "tokens": tokens, "parts": parts})
        node, at = (node.children[at] if node.children else None), 0
    scored = {t: gamma**t for t, turn in enumerate(turns) if turn["parts"]} or {0: 1.0}
    paid = sum(w * worth(turns[t]["parts"], len(texts)) for t, w in scored.items())
    most = rollout.reward.maximum * sum(scored.values())
    scheme = task.scheme(item, texts)
    named = {"scheme": scheme} if scheme else {}
    return named | {"return": paid / most, "turns": turns}


def latencies(name: str, rollout: Rollout, items: list[dict], args, spent: float) -> dict:
    """Seconds and tokens of one problem at a time, one joint response each: of the first TIMED
    problems, or of as many as a tenth of the method's time has room for, and of one at least.
    spent: seconds of the rest of it. The mean so far tells what one problem more would take."""
    found, begun = {"seconds": [], "tokens": []}, time.perf_counter()
    sampling, key = sampling_of(rollout.args, args.greedy), (args.seed, EVAL, 0)
    with progress(f"{name}, latency", min(TIMED, len(items))) as bar:
        short = dataclasses.replace(sampling, max_new_tokens=1)  # it only warms up
        rollout(items[:1], (*key, 0), 1, short, 1, True)
        start = time.perf_counter()
        for number, item in enumerate(items[:TIMED]):
            now = time.perf_counter()
            if number and now - begun + (now - start) / number > spent / 9:
                break
            rollout.seconds.clear()
            nodes = itertools.chain(*rollout([item], (*key, number), 1, sampling, 1, True))
            own = itertools.chain(*(node.responses for node in nodes))
            found["seconds"].append(rollout.seconds["rollout"])
            found["tokens"].append(sum(len(said.tokens) for texts in own for said in texts))
            bar.update()
    return found
