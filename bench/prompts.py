"""How often does an untrained coding team divide its work, by how it is asked?

    python -m bench.prompts --data coophumaneval.jsonl --model qwen2.5-coder-0.5b.gguf
                            [--task coophumaneval programs.paper.CoopHumanEval ...] [--chat yes]

Plays the first training problems with a frozen team, once for each task, whose wordings differ, and
scores all G x G joint responses of a problem with `code`.

calls     main's function calls a helper: share of main's responses
passes    joint responses that pass all tests
of calls  of the joint responses in which main calls: mean share of tests passed; share that passes
needed    joint responses that pass and lose a test without the helper (load_bearing)
coop      joint responses that pass and need both parts
problems  problems with a joint response that passes and needs both parts
defines   responses that define a partner's function too: aux's author, main's
tokens    mean of a response, and share cut off: aux's author, main's
"""

import argparse
import ast
import itertools
import json
import math
import statistics
import sys
import time
from pathlib import Path

import train
from evaluation.players import Player
from magrpo import EVAL
from policies.sampling import sampling_of
from programs.extraction import extract
from training.bits import settle
from training.plugins import find_reward, make_task

HEAD = (
    "| wording | template | calls | passes | of calls: tests passed | of calls: all pass | needed "
    "| coop | problems | defines | tokens, cut off |\n" + "|---" * 11 + "|"
)


TASKS = [
    "programs.paper.CoopHumanEval",
    "bench.wordings.HasToCall",
    "bench.wordings.Worked",
    "coophumaneval",
]


def calls(text: str, entry: str) -> bool:
    """Does the main function of a response, with what it needs, call aux?"""
    source = extract(text, entry, frozenset({"aux"})).source
    called = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Name) and function.id == "aux" for function in called)


def joint_responses(nodes: list) -> list[dict]:
    """A record of each scored pair, as eval.py --score reads them."""
    found = []
    for node in nodes:
        for joint, parts in zip(node.joints.tolist(), node.parts, strict=True):
            texts = node.texts(joint)
            found.append(
                {"item": node.item, "joint": joint, "responses": texts, "parts": parts}
                | {"calls": calls(texts[1], node.item["entry_point"])}
            )
    return found


def row(nodes: list, found: list[dict]) -> str:
    """One line of the table."""

    def mean(values) -> str:
        values = list(values)
        return f"{statistics.fmean(values):.2f}" if values else "-"

    def part(name: str, records: list[dict] = found) -> str:
        return mean(record["parts"][name] for record in records)

    caller = [record for record in found if record["calls"]]
    shared = {record["item"]["task_id"] for record in found if record["parts"]["metric/coop"]}
    defines, sizes = [], []
    for agent in (0, 1):
        answers = [(node, answer) for node in nodes for answer in node.responses[agent]]
        partners = ["aux" if agent else node.item["entry_point"] for node, _ in answers]
        pairs = zip(answers, partners, strict=True)
        defines.append(
            mean(extract(answer.text, name).node is not None for (_, answer), name in pairs)
        )
        tokens = statistics.fmean(len(answer.tokens) for _, answer in answers)
        sizes.append(f"{tokens:.0f} {mean(not answer.ended for _, answer in answers)}")
    cells = [mean(record["calls"] for record in found), part("metric/pass")]
    cells += [part("tests", caller), part("metric/pass", caller), part("metric/load_bearing")]
    cells += [part("metric/coop"), f"{len(shared)} of {len(nodes)}"]
    return " | ".join([*cells, ", ".join(defines), ", ".join(sizes)])


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    flags.add_argument("--model", required=True)
    flags.add_argument("--data", required=True)
    flags.add_argument("--task", nargs="+", default=TASKS)
    flags.add_argument("--chat", choices=("yes", "no", "both"), default="both")
    flags.add_argument("--problems", type=int, default=20)
    flags.add_argument("--num-samples", type=int, default=8)
    flags.add_argument("--temperature", default="0.8")
    flags.add_argument("--top-p", default="0.95")
    flags.add_argument("--max-new-tokens", default="160")
    flags.add_argument("--samples", help="every joint response and its score, in JSONL")
    args = flags.parse_args()
    argv = ["--task", args.task[0], "--data", args.data, "--model", args.model, "--reward", "code"]
    argv += ["--temperature", args.temperature, "--top-p", args.top_p]
    argv += ["--max-new-tokens", args.max_new_tokens, "--max-prompt-tokens", "2000"]
    train.quiet()
    settings = train.parse(argv)
    settle(settings)
    player = Player(settings, None, find_reward(settings, make_task(settings)))
    print(HEAD, flush=True)
    templates = {"yes": [True], "no": [False], "both": [True, False]}[args.chat]
    for name, chat in itertools.product(args.task, templates):
        start = time.perf_counter()
        settings.task, settings.chat_template = name, chat
        player.task = make_task(settings)
        items = player.task.items("train")[: args.problems]
        key = (0, EVAL, 0, 0)
        [nodes] = player.rollout()(
            items, key, args.num_samples, sampling_of(settings), math.inf, True
        )
        found = joint_responses(nodes)
        template = "chat" if chat else "none"
        print(f"| {name} | {template} | {row(nodes, found)} |", flush=True)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
        if args.samples:
            with Path(args.samples).open("a") as file:
                for record in found:
                    file.write(json.dumps({"task": name, "template": template} | record) + "\n")


if __name__ == "__main__":
    main()
