"""Compute the measures of an evaluation from its records: estimators, and the table of all methods.

A record is one joint response of one method to one problem, as eval.py makes it and as --samples
writes it. An error (`_se`) is the standard error over problems. The problems are the draw from a
population, so the samples of one problem are averaged first. k of pass@k counts joint responses.
"""

import itertools
import math
import statistics
from collections import Counter, defaultdict

import numpy as np

from rewards import logged

KS = (1, 3, 5, 10)
TIE = 1e-9  # returns that differ by less are equal but for rounding
# Student's t, two-sided 95 %, for 1, 2, ... degrees of freedom
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def best_of_k(values: list[float], k: int) -> float:
    """Return the expected largest of k of the values, drawn without replacement.

    The values are those of n samples, and this is the unbiased estimate of the best of k samples.
    For shares of passed tests it is accuracy@k. For 0 and 1 it is pass@k, which is
    1 - C(n - passed, k) / C(n, k).

    >>> best_of_k([0.0, 1.0, 0.0], 2)  # two of the three pairs hold the 1
    0.6666666666666666
    """
    total = 0.0
    for rank, value in enumerate(sorted(values)):  # the largest of C(rank, k - 1) subsets
        total += value * math.comb(rank, k - 1)
    return total / math.comb(len(values), k)


def mean_and_error(values: list[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error, which one value does not have."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, None
    deviation = statistics.stdev(values)
    return mean, deviation / math.sqrt(len(values))


def paired(values: list[float], others: list[float]) -> dict:
    """Return the mean of values - others, its error, and the counts of wins, ties and losses."""
    gaps = np.subtract(values, others).tolist()
    mean, error = mean_and_error(gaps)
    wins = sum(gap >= TIE for gap in gaps)
    losses = sum(gap <= -TIE for gap in gaps)
    return {
        "difference": mean,
        "difference_se": error,
        "win": wins,
        "tie": len(gaps) - wins - losses,
        "loss": losses,
    }


def t95(count: int) -> float:
    """Return half of a 95 % interval in standard errors, for a mean over 2 or more values."""
    freedom = count - 1
    if freedom <= len(T95):
        return T95[freedom - 1]
    return 1.96 + 2.37 / freedom + 2.8 / freedom**2


def t_interval(
    mean: float,
    error: float | None,
    count: int,
) -> tuple[float | None, float | None]:
    """Return the 95 % interval of a mean of `count` values, by Student's t.

    Values that are all equal have none, because they do not show their spread.
    """
    if error is None or error < TIE:
        return None, None
    half = t95(count) * error
    return mean - half, mean + half


def summarize(
    header: dict,
    records: list[dict],
    methods: list[str] | None = None,
) -> dict:
    """Return the table {"settings", "methods": {name: {measure: value}}}, in the records' order.

    header: the first line of a --samples file. Greedy decoding's measures have the prefix greedy/.
    Every method after the first has "vs", a paired comparison of its return with the first one's.
    A method that was never scored is left out, and the title says so: its return would be 0.
    """
    by_item = defaultdict(lambda: defaultdict(list))  # [method, greedy][item]: its records
    for record in records:
        items = by_item[record["method"], record["greedy"]]
        items[record["item"]].append(record)
    title = header["settings"]["title"]
    task_measures = header["measures"]
    table = {}
    returns = {}
    for name in methods or dict.fromkeys(method for method, _ in by_item):
        sampled = list(by_item[name, False].values())
        greedy = list(by_item[name, True].values())
        main = sampled or greedy
        played = list(itertools.chain(*main))
        if not any(turn["parts"] for record in played for turn in record["turns"]):
            title += f"\nno method {name}: the reward scores none of its turns"
            continue
        row = _measures(main, task_measures)
        row |= _speed(header["timing"].get(name))
        if sampled and greedy:
            for measure, value in _measures(greedy, task_measures).items():
                row[f"greedy/{measure}"] = value
        schemes = _schemes(played, task_measures.get("pass@k"))
        if schemes and "pass@1" in row:
            row["schemes"] = schemes
        returns[name] = []
        for problem in main:
            returns[name].append(statistics.fmean(record["return"] for record in problem))
        first = next(iter(returns))
        if name != first:
            row["vs"] = {"method": first} | paired(returns[name], returns[first])
        table[name] = row
    if not table:
        raise ValueError("the reward scores no turn of any method: it returned {} each time")
    settings = header["settings"] | {"title": title}
    return {"settings": settings, "methods": table}


def over_runs(header: dict, records: list[dict], methods: list[str] | None = None) -> dict:
    """Return the table of `summarize`, with the mean over the runs of each method and its error.

    A method that one run alone has played keeps its error over problems. The first run alone is
    timed. A part of the reward that no response of a run had is 0 there.
    """
    trained = {record["method"] for record in records if record.get("run")}
    tables = []
    for run in sorted({record.get("run", 0) for record in records}):
        played = []
        for record in records:
            if record.get("run", 0) == run or record["method"] not in trained:
                played.append(record)
        tables.append(summarize(header, played, methods))
    if len(tables) == 1:
        return tables[0]
    pooled = summarize(header, records, methods)["methods"]
    for name, row in tables[0]["methods"].items():
        rows = [table["methods"][name] for table in tables if name in table["methods"]]
        if name in trained:
            kept = {"schemes", "vs", *_speed(header["timing"].get(name))}
            for measure in dict.fromkeys(itertools.chain(*rows)):
                if measure not in kept and not measure.endswith("_se"):
                    values = [row_of_run.get(measure, 0.0) for row_of_run in rows]
                    row[measure], row[f"{measure}_se"] = mean_and_error(values)
        if "schemes" in row:
            row["schemes"] = pooled[name]["schemes"]
        if "vs" in row:
            differences = []
            for row_of_run in rows:
                vs = row_of_run.get("vs", {})
                if vs.get("method") == row["vs"]["method"]:  # in this run, both have played
                    differences.append(vs["difference"])
            row["vs"] = pooled[name]["vs"]
            row["vs"]["difference"], row["vs"]["difference_se"] = mean_and_error(differences)
    return tables[0]


def _measures(problems: list[list[dict]], task_measures: dict) -> dict:
    """Return every measure of one method, each with its error over problems.

    problems: the records of each.
    """
    part_names = {}
    longest = []
    for record in itertools.chain(*problems):
        part_names |= dict.fromkeys(record["turns"][-1]["parts"])
        longest.append(sum(max(turn["tokens"]) for turn in record["turns"]))
    per_item = defaultdict(list)
    for records in problems:
        for name, value in _of_problem(records, task_measures, part_names).items():
            per_item[name].append(value)
    measures = {}
    for name, values in per_item.items():
        measures[name], measures[f"{name}_se"] = mean_and_error(values)
    if any(longest):
        measures["longest"] = statistics.fmean(longest)
        measures |= _spread("longest", longest)
    return measures


def _spread(name: str, values: list[float]) -> dict:
    """Return the median and the 90th percentile."""
    median, tail = np.quantile(values, [0.5, 0.9]).tolist()
    return {f"{name}_median": median, f"{name}_p90": tail}


def _of_problem(records: list[dict], task_measures: dict, part_names: dict) -> dict:
    """Return the measures of one problem, from the last turn of all its samples.

    A part of the reward that a scored response lacks is 0, as in training.
    """
    last_turns = [record["turns"][-1] for record in records]
    scored = [turn["parts"] for turn in last_turns if turn["parts"]]
    measures = {"return": statistics.fmean(record["return"] for record in records)}
    values = {}
    if scored:
        for part in part_names:
            values[part] = [parts.get(part, 0.0) for parts in scored]
            measures[logged(part)] = statistics.fmean(values[part])
    for name, part in task_measures.items():
        if part not in values:
            continue
        if not name.endswith("@k"):
            earned = [value > 0 for value in values[part]]
            measures[name] = statistics.fmean(earned)
            continue
        for k in KS:
            if k <= len(scored):
                measures[f"{name[:-1]}{k}"] = best_of_k(values[part], k)
    answers = {tuple(turn["responses"]) for turn in last_turns}
    turns = [turn for record in records for turn in record["turns"]]
    measures["distinct"] = len(answers) / len(records)
    measures["mean_turns"] = len(turns) / len(records)
    tokens = np.array([turn["tokens"] for turn in turns])  # 0 where an agent did not speak
    if tokens.any():  # solutions of the data set were not decoded
        spoken = np.maximum((tokens > 0).sum(0), 1)  # turns of each agent
        for agent, length in enumerate(tokens.sum(0) / spoken):
            measures[f"length/{agent}"] = float(length)
        measures["tokens_per_problem"] = tokens.sum() / len(records)
    return measures


def _speed(timing: dict | None) -> dict:
    """Return latency and speed as a user of one problem at a time meets them: methods.latencies."""
    if not timing:
        return {}
    latency, error = mean_and_error(timing["seconds"])
    return {
        "latency_s": latency,
        "latency_s_se": error,
        "tokens_per_s": sum(timing["tokens"]) / sum(timing["seconds"]),
        "latency_problems": len(timing["seconds"]),
    } | _spread("latency_s", timing["seconds"])


def _schemes(records: list[dict], part: str | None) -> dict:
    """Return how often each scheme was seen, the most frequent first, and how often it passed.

    part: the part of the reward that says so.
    """
    counts = Counter()
    passes = Counter()
    for record in records:
        parts = record["turns"][-1]["parts"]
        if "scheme" in record and parts:
            counts[record["scheme"]] += 1
            passes[record["scheme"]] += parts.get(part, 0.0)
    schemes = {}
    for name, count in counts.most_common():
        schemes[name] = {"count": count, "pass_rate": passes[name] / count}
    return schemes
