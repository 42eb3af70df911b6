"""What an evaluation is worth, from its records alone: estimators, and the table of all methods.

A record is one joint response of one method to one problem, as eval.py makes it and as --samples
writes it. An error (`_se`) is the standard error over problems: the problems are the draw from a
population, the samples of one problem are averaged first. k of pass@k counts joint responses.
"""

import math
import statistics
from collections import Counter, defaultdict

from rewards import logged

KS = (1, 3, 5, 10)
# Student's t, two-sided 95 %, for 1, 2, ... degrees of freedom
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def best_of_k(values: list[float], k: int) -> float:
    """Expected largest of k of the values, drawn without replacement.

    Of n sampled values this is the unbiased estimate of the best of k samples: accuracy@k for
    shares of passed tests; for 0 and 1 it is pass@k, 1 - C(n - passed, k) / C(n, k).

    >>> best_of_k([0.0, 1.0, 0.0], 2)  # two of the three pairs hold the 1
    0.6666666666666666
    """
    ranked = sorted(values)  # the i-th (from 0) is the largest of C(i, k - 1) subsets
    return sum(v * math.comb(i, k - 1) for i, v in enumerate(ranked)) / math.comb(len(ranked), k)


def mean_and_error(values: list[float]) -> tuple[float, float | None]:
    """Mean and its standard error, which one value does not have."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return statistics.fmean(values), error


def paired(values: list[float], others: list[float]) -> dict:
    """values - others, problem by problem: mean, error, and how often they win, tie and lose."""
    gaps = [a - b for a, b in zip(values, others, strict=True)]
    mean, error = mean_and_error(gaps)
    signs = Counter(0 if abs(gap) < 1e-9 else math.copysign(1, gap) for gap in gaps)
    counts = {"win": signs[1], "tie": signs[0], "loss": signs[-1]}
    return {"difference": mean, "difference_se": error} | counts


def t95(seeds: int) -> float:
    """Half of a 95 % interval in standard errors, for a mean over so many seeds (2 or more)."""
    return T95[seeds - 2] if seeds <= len(T95) + 1 else 1.96 + 2.5 / (seeds - 1)


def interval(runs: list[list[float]]) -> tuple[float, float, float]:
    """Mean over seeds and problems, and its 95 % interval: (mean, low, high).

    runs: one list per seed, of the values of the same problems in the same order. Problems and
    seeds are drawn independently, so the squares of their errors add up. One seed shows nothing of
    the spread over seeds, and the interval is then that of the problems alone.
    """
    mean, seeds = mean_and_error([statistics.fmean(run) for run in runs])
    _, problems = mean_and_error([statistics.fmean(values) for values in zip(*runs, strict=True)])
    half = math.hypot(1.96 * (problems or 0.0), t95(len(runs)) * seeds if seeds else 0.0)
    return mean, mean - half, mean + half


def summarize(header: dict, records: list[dict], methods: list[str] | None = None) -> dict:
    """The table: {"settings", "methods": {name: {measure: value}}}, in the order of the records.

    header: the first line of a --samples file. Greedy decoding's measures have the prefix greedy/.
    Every method after the first has "vs", a paired comparison of its return with the first one's.
    A method that was never scored is left out, and the title says so: its return would be 0.
    """
    known, table, returns = defaultdict(list), {}, {}
    title = header["settings"]["title"]
    for record in records:
        known[record["method"]].append(record)
    for name in methods or list(known):
        if not any(turn["parts"] for record in known[name] for turn in record["turns"]):
            title += f"\nno method {name}: the reward scores none of its turns"
            continue
        greedy = [record for record in known[name] if record["greedy"]]
        sampled = [record for record in known[name] if not record["greedy"]]
        main, own = sampled or greedy, header["measures"]
        table[name] = _measures(main, own) | _speed(header["timing"].get(name))
        if sampled and greedy:
            found = _measures(greedy, own)
            table[name] |= {f"greedy/{key}": value for key, value in found.items()}
        if found := _schemes(main, own.get("pass@k")):
            table[name]["schemes"] = found
        returns[name] = [statistics.fmean(r["return"] for r in group) for group in _by_item(main)]
        if (first := next(iter(returns))) != name:
            table[name]["vs"] = {"method": first, **paired(returns[name], returns[first])}
    if not table:
        raise ValueError("the reward scores no turn of any method: it returned {} each time")
    return {"settings": header["settings"] | {"title": title}, "methods": table}


def _by_item(records: list[dict]) -> list[list[dict]]:
    groups = defaultdict(list)
    for record in records:
        groups[record["item"]].append(record)
    return [groups[item] for item in sorted(groups)]


def _measures(records: list[dict], own: dict[str, str]) -> dict[str, float | None]:
    """Every measure of one method, each with its error over problems; own: the task's."""
    names = dict.fromkeys(name for r in records for name in r["turns"][-1]["parts"])
    per_item = defaultdict(list)
    for group in _by_item(records):
        for name, value in _of_problem(group, own, list(names)).items():
            per_item[name].append(value)
    found = {}
    for name, values in per_item.items():
        found[name], found[f"{name}_se"] = mean_and_error(values)
    return found


def _of_problem(records: list[dict], own: dict[str, str], names: list[str]) -> dict[str, float]:
    """The measures of one problem, from all its samples; of several turns, the last one's. names:
    the parts of the method's reward. A part that a scored response lacks is 0, as in training."""
    last = [record["turns"][-1] for record in records]
    found = {"return": statistics.fmean(record["return"] for record in records)}
    scored = [turn["parts"] for turn in last if turn["parts"]]
    parts = {}
    if scored:
        parts = {name: [values.get(name, 0.0) for values in scored] for name in names}
    for name, values in parts.items():
        found[logged(name)] = statistics.fmean(values)
    for name, part in own.items():
        if part not in parts:
            continue
        values = parts[part]
        if name.endswith("@k"):
            ks = [k for k in KS if k <= len(values)]
            found |= {f"{name[:-1]}{k}": best_of_k(values, k) for k in ks}
        else:  # how often it is earned at all
            found[name] = statistics.fmean(value > 0 for value in values)
    found["distinct"] = len({tuple(turn["responses"]) for turn in last}) / len(last)
    if sum(last[0]["tokens"]):  # solutions of the data set were not decoded
        for agent, lengths in enumerate(zip(*(turn["tokens"] for turn in last), strict=True)):
            found[f"length/{agent}"] = statistics.fmean(lengths)
        totals = [sum(sum(turn["tokens"]) for turn in record["turns"]) for record in records]
        found["tokens_per_problem"] = statistics.fmean(totals)
    return found


def _speed(timing: dict | None) -> dict[str, float | None]:
    """Latency and speed as a user of one problem at a time feels them; see methods.latencies."""
    if not timing:
        return {}
    latency, error = mean_and_error(timing["seconds"])
    found = {"latency_s": latency, "latency_s_se": error}
    found["tokens_per_s"] = sum(timing["tokens"]) / sum(timing["seconds"])
    return found | {"latency_problems": len(timing["seconds"])}


def _schemes(records: list[dict], part: str | None) -> dict[str, dict]:
    """How often each scheme was seen, the most frequent first, and how often it passed; or {}."""
    passed = defaultdict(list)
    if not any(part in record["turns"][-1]["parts"] for record in records):
        return {}
    for record in records:
        parts = record["turns"][-1]["parts"]
        if "scheme" in record and parts:
            passed[record["scheme"]].append(parts.get(part, 0.0))
    ranked = sorted(passed.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return {name: {"count": len(v), "pass_rate": statistics.fmean(v)} for name, v in ranked}
