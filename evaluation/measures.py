"""Compute the measures of an evaluation from its records.

A record is one joint response of one method to one problem, as players.record makes it and as
--samples writes it. An error (`_se`) is the standard error over problems. The problems are the draw
from a population, so the samples of one problem are averaged first. k of pass@k counts joint
responses.
"""

import itertools
import math
import re
from collections.abc import Collection

import numpy as np
from pandas import DataFrame, concat, get_dummies

from rewards import EQUAL, logged
from training.metrics import logged_parts

KS = (1, 3, 5, 10)
KEYS = ("method", "greedy", "item", "scheme", "return")  # of a record that its row keeps


def best_of_k(values: Collection[float], k: int) -> float:
    """Return the expected largest of k of the values, drawn without replacement.

    The values are those of n samples, and this is the unbiased estimate of the best of k samples.
    For shares of passed tests it is accuracy@k. For 0 and 1 it is pass@k, which is
    `1 - C(n - passed, k) / C(n, k)`. With fewer than k values it is NaN.

    >>> best_of_k([0.0, 1.0, 0.0], 2)  # two of the three pairs hold the 1
    0.6666666666666666
    """
    if k > len(values):
        return math.nan
    total = 0.0
    for rank, value in enumerate(sorted(values)):  # the largest of C(rank, k - 1) subsets
        total += value * math.comb(rank, k - 1)
    return total / math.comb(len(values), k)


def summarize(
    played: dict[str, list[dict]], measures: dict[str, str], schemes: Collection[str] = ()
) -> dict:
    """Return the table `{method: {measure: value}}` of the records of each method.

    `measures` and `schemes` are the task's. Greedy decoding's measures have the prefix greedy/. The
    difference of a return to the first method's is paired by problem.
    """
    records = list(itertools.chain(*played.values()))
    ends = [record["turns"][-1]["parts"] for record in records]
    rows = []
    for record, parts in zip(records, logged_parts(ends), strict=True):
        agents = len(record["turns"][-1]["responses"])
        own = {f"agent/{agent}/reward" for agent in range(agents)}
        for name in parts.keys() - own:
            if name.startswith("agent/"):
                del parts[name]  # of a larger team
        rows.append(flat(record) | parts)
    frame = DataFrame(rows)
    frame = get_dummies(frame, columns=["scheme"], prefix_sep="/", dtype=float)
    for name in schemes:
        if f"scheme/{name}" not in frame:
            frame[f"scheme/{name}"] = 0.0
    main = frame["greedy"].all()  # the decoding whose measures have no prefix
    problems = by_problem(frame, measures)
    returns = problems["return"].xs(main, level="greedy", drop_level=False)
    first, *others = played
    problems["difference"] = returns[others] - returns[first]
    groups = problems.groupby(["method", "greedy"], sort=False)
    errors = groups.sem()
    errors = errors.where(errors > EQUAL).add_suffix("_se")  # equal values do not show their spread
    values = concat([groups.mean(), errors], axis=1)
    table = {method: {} for method in played}
    for (method, greedy), row in values.iterrows():
        prefix = "" if greedy == main else "greedy/"
        table[method] |= row.dropna().add_prefix(prefix)
    return table


def of_run(table: dict, start: str) -> dict:
    """Return the rows of one run by the method's name. A label is `start` and that name.

    Differences are left out, because they may be to a method of another run.
    """
    methods = {}
    for label, row in table.items():
        method = label.rpartition("/")[2]
        if label == start + method:
            kept = [name for name in row if not re.fullmatch("(greedy/)?difference(_se)?", name)]
            methods[method] = {name: row[name] for name in kept}
    return methods


def flat(record: dict) -> dict:
    """Return what one row of the table of all joint responses holds, but for the reward's parts."""
    turns = record["turns"]
    tokens = np.array([turn["tokens"] for turn in turns])  # (turns, agents)
    row = {name: record[name] for name in KEYS}
    row["answers"] = tuple(turns[-1].get("scored", turns[-1]["responses"]))
    for agent, lengths in enumerate(tokens.T):  # 0 where it did not speak
        if lengths.any():
            row[f"length/{agent}"] = lengths[lengths > 0].mean()
    row["tokens_per_problem"] = tokens.sum()
    row["longest"] = tokens.max(axis=1).sum()
    return row | record.get("speed", {})


def by_problem(frame: DataFrame, measures: dict[str, str]) -> DataFrame:
    """Return the measures of each problem, by method and decoding: means over its samples."""
    groups = frame.groupby(["method", "greedy", "item"], sort=False)
    problems = groups.mean(numeric_only=True)
    problems["distinct"] = groups["answers"].nunique() / groups.size()
    for name, part in measures.items():
        column = logged(part)
        if column not in frame:
            continue
        values = groups[column]
        if name.endswith("@k"):
            for k in KS:
                problems[f"{name[:-1]}{k}"] = values.agg(best_of_k, k=k)
        else:
            problems[name] = values.agg(lambda part: (part > 0).mean())
    return problems
