"""The methods that eval.py compares: how a joint response comes about, and what is recorded of it.

A way of playing takes a Player, items, a key of random numbers as in Rollout, samples per item and
a Sampling, and returns one node per item. Where a node has children, they hold the later turns.
"""

import argparse
import dataclasses
import itertools
import time
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from magrpo import EVAL, Node, Rollout
from policies.decoding import Response
from running.flags import meant
from running.heldout import played, worth

CHUNK = 10  # problems played at once on a CPU, whose caches larger batches leave
TIMED = 10  # problems at most whose decoding is timed, one at a time


def parallel(player, items, key, samples, sampling) -> list:
    """Every agent from its own prompt, with feedback between turns: as in training."""
    return player.rollout()(items, key, samples, sampling, 1, True)[0]


def wrote(texts: dict[int, str]) -> str:
    """How a baseline shows an agent what others wrote."""
    return "\n\n".join(f"Agent {agent} wrote:\n{text.rstrip()}" for agent, text in texts.items())


def sequential(player, items, key, samples, sampling) -> list:
    """Agent k sees the responses of agents 0 to k-1 above its own prompt. One turn."""
    size, rollout = player.clock.size, player.rollout(turns=1)
    nodes = [Node(b, item, (*key[:3], key[3] + b), [], samples) for b, item in enumerate(items)]
    shape = (size, samples, sampling.max_new_tokens)
    numbers = [np.random.default_rng(np.random.SeedSequence(n.key)).random(shape) for n in nodes]
    for agent in range(size):
        prompts = []
        for node, s in itertools.product(nodes, range(samples)):
            seen = {other: node.responses[other][s].text for other in range(agent)}
            asked = player.task.observe(agent, node.item, [])
            text = f"{wrote(seen)}\n\n{asked}" if seen else asked
            prompts.append((agent, rollout.encode(agent, text)))
        uniforms = torch.from_numpy(np.concatenate([draws[agent] for draws in numbers]))
        answers = iter(player.clock.sample(prompts, uniforms[:, None], sampling))
        for node in nodes:
            node.responses.append([next(answers)[0] for _ in range(samples)])
    rollout.judge(nodes, 1)
    return nodes


def discussion(player, items, key, samples, sampling) -> list:
    """Each answers, is told what the others wrote, as feedback, and answers again; the second
    answer counts. One turn."""
    agents, rollout = range(player.clock.size), player.rollout(turns=1)
    nodes = [
        Node(b, item, (*key[:3], key[3] + b), [[] for _ in agents], samples)
        for b, item in enumerate(items)
    ]
    rollout.act(nodes, sampling)
    for node in nodes:
        for s in range(samples):
            texts = node.texts((s,) * len(agents))
            others = ({a: texts[a] for a in agents if a != agent} for agent in agents)
            node.feedback.append([wrote(seen) for seen in others])
    last = [child for node in nodes for child in rollout.open(node, 1)]
    rollout.act(last, sampling)
    rollout.judge(last, 1)
    return nodes


def reference(task, reward, args, items) -> list:
    """The items' own solutions, as one response of a single agent; no model plays."""
    nodes = [
        Node(b, item, (), [], 1, responses=[[Response([], item["solution"], [], 0.0, True)]])
        for b, item in enumerate(items)
    ]
    Rollout(argparse.Namespace(size=1), task, reward, args).judge(nodes, 1)
    return nodes


def plan(args, agents: int, team: Path | None, solo: Path | None, items: list[dict]) -> dict:
    """The methods that apply: name -> (kind of player, how it plays, which agents are trained)."""
    found = {}
    if agents > 1:
        found |= {"trained": ("team", parallel, set(range(agents)))} if team else {}
        found |= {"naive": ("team", parallel, set()), "sequential": ("team", sequential, set())}
        found["discussion"] = ("team", discussion, set())
    found["single"] = ("solo" if solo and not args.single_model else "single", parallel, set())
    if solo:
        found["single-trained"] = ("solo", parallel, {0})
    if agents > 1 and team:
        found |= {f"frozen-{agent}": ("team", parallel, {agent}) for agent in range(agents)}
    if all(item.get("solution") for item in items):
        found["reference"] = ("data", reference, set())
    unknown = [name for name in args.method or () if name not in found]
    if unknown:
        hint = meant(unknown[0], found)
        told = f"--method {unknown[0]}{hint}: what applies here is {', '.join(found)}"
        told += "" if team else "; trained and frozen-<i> need a team's --run"
        told += "" if solo else "; single-trained needs a --run of one agent"
        raise ValueError(told)
    return {name: found[name] for name in args.method or found}


def progress(name: str, what: str, count: int) -> tqdm:
    """A bar on stderr, which says what is being done with so many problems."""
    shown = {"desc": f"{name}, {what}", "total": count, "unit": "problem", "leave": False}
    return tqdm(**shown, mininterval=0, miniters=1)  # each update is of some problems: tell it


def play_method(name: str, play, player, items: list[dict], args) -> list[dict]:
    """The records of one method, sampled and greedy."""
    found, chunk = [], len(items) if torch.cuda.is_available() else CHUNK
    for greedy in (False, True)[args.greedy :]:
        samples, sampling = 1 if greedy else args.num_samples, player.sampling(greedy)
        with progress(name, "greedy" if greedy else "sampled", len(items)) as bar:
            for start in range(0, len(items), chunk):
                key, some = (args.seed, EVAL, 0, start), items[start : start + chunk]
                nodes = play(player, some, key, samples, sampling)
                maximum, gamma = player.reward.maximum, player.args.gamma
                found += lines(name, greedy, nodes, player.task, maximum, gamma, start, args.show)
                bar.update(len(some))
    return found


def lines(
    name: str,
    greedy: bool,
    nodes: list,
    task,
    maximum: float,
    gamma: float,
    first: int = 0,
    show: int | None = None,
) -> list[dict]:
    """One record per problem and sample, with all its turns; one without parts was not scored. It
    has the scheme of its last turn, where the task names schemes; and where it is to be shown, what
    the task draws of each."""
    found, draws = [], show and task.colors
    for number, root in enumerate(nodes, first):
        for sample in range(root.samples):
            turns, node, at = [], root, sample
            while node:
                (texts, parts), item = played(node, at), node.item
                tokens = [len(responses[at].tokens) for responses in node.responses]
                drawn = {"drawn": task.draw(item, texts)} if draws else {}
                turns.append({"responses": texts, "tokens": tokens, "parts": parts} | drawn)
                node, at = (node.children[at] if node.children else None), 0
            scored = [turn["parts"] for turn in turns if turn["parts"]]
            weights = [gamma**turn for turn in range(len(scored))]
            values = [worth(parts, len(texts)) for parts in scored]
            paid = sum(w * value for w, value in zip(weights, values, strict=True))
            record = {"method": name, "greedy": greedy, "item": number, "sample": sample}
            if scheme := task.scheme(item, texts):
                record["scheme"] = scheme
            found.append(record | {"return": paid / (maximum * sum(weights)), "turns": turns})
    return found


def clock(name: str, play, player, items: list[dict], args, spent: float) -> dict:
    """Seconds and tokens of one problem at a time, one joint response each: of the first TIMED
    problems, or of as many as a tenth of the method's time has room for, and of one at least.
    spent: seconds of the rest of it. The mean so far tells what one problem more would take."""
    found, sampling = {"seconds": [], "tokens": []}, player.sampling(args.greedy)
    with progress(name, "latency", min(TIMED, len(items))) as bar:
        begun, key = time.perf_counter(), (args.seed, EVAL, 0)
        short = dataclasses.replace(sampling, max_new_tokens=1)  # it only warms up
        play(player, items[:1], (*key, 0), 1, short)
        start = time.perf_counter()
        for number, item in enumerate(items[:TIMED]):
            now = time.perf_counter()
            if number and now - begun + (now - start) / number > spent / 9:
                break
            player.clock.seconds = player.clock.tokens = 0
            play(player, [item], (*key, number), 1, sampling)
            found["seconds"].append(player.clock.seconds)
            found["tokens"].append(player.clock.tokens)
            bar.update()
    return found
