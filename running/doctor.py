"""Known signs of failure in a run's metrics: what is seen, in numbers, and what to try.

SIGNS, at the end, are those of every task; a task may have more (`signs`, the name of such a table)
and may say which part of its reward is a bonus on which other one (`bonuses`). The last fifth of
the steps is judged, or compared with the first fifth. Nothing is said of a run with fewer than 20
steps. The thresholds are rules of thumb: a sign is a reason to look, not a proof.
"""

import json
import math
import statistics
from pathlib import Path
from typing import NamedTuple

from running.folder import read_args
from running.plugins import resolve, task_class
from tasks import Task

STEPS = 20  # below, nothing is said
SILENT = 2.0  # tokens of a response that says nothing, its end included
ALL = 0.95  # share of groups without a difference; share of the most that counts as the most
FAR = 1.0  # log of the ratio, by which one response counts e times as much as another, or a third

Verdict = tuple[bool | None, str]  # is it seen (None: the run does not show it), and the numbers


class Finding(NamedTuple):
    name: str
    fired: bool | None
    seen: str
    advice: str


class Run:
    """The metrics of a run: one value per step and name; `late`, its samples of the last steps."""

    def __init__(self, rows: list[dict], samples: list[dict], bonuses: dict[str, str]):
        self.rows = [row for row in rows if "return" in row]  # the others are evaluations
        self.window = max(len(self.rows) // 5, STEPS // 5)
        start = len(self.rows) - 2 * self.window
        self.late = [sample for sample in samples if sample["step"] >= start]
        self.bonuses = bonuses

    def has(self, *names: str) -> bool:
        return all(name in self.rows[-1] for name in names)

    def all_of(self, name: str) -> list[str]:
        """The metrics of a name with a number in it: completions/{}/mean_length."""
        names = (name.format(number) for number in range(len(self.rows[-1])))
        return [name for name in names if self.has(name)]

    def values(self, name: str) -> list[float]:
        return [row[name] for row in self.rows]

    def mean(self, name: str) -> float:
        """Over all steps."""
        return statistics.fmean(self.values(name))

    def end(self, name: str) -> float:
        """Mean over the last fifth of the steps."""
        return statistics.fmean(self.values(name)[-self.window :])

    def change(self, name: str) -> tuple[float, float]:
        """Last fifth minus first fifth, and its standard error."""
        values = self.values(name)
        first, last = values[: self.window], values[-self.window :]
        error = math.sqrt((statistics.variance(first) + statistics.variance(last)) / self.window)
        return statistics.fmean(last) - statistics.fmean(first), error


def nothing_to_learn(run: Run) -> Verdict:
    """The joint responses of a group all earn the same, far from the most."""
    equal, worth = run.end("frac_reward_zero_std"), run.end("return")
    seen = f"{equal:.0%} of the groups earn all the same, at a return of {worth:.2f}"
    return equal >= ALL > worth, seen


def silent_agent(run: Run) -> Verdict:
    """An agent of a team writes nothing."""
    lengths = [run.end(name) for name in run.all_of("completions/{}/mean_length")]
    seen = "; ".join(f"agent {agent}: {length:.1f} tokens" for agent, length in enumerate(lengths))
    return min(lengths) <= SILENT, seen


def feedback_shock(run: Run) -> Verdict:
    """A later turn earns less than the first."""
    first, *_, last = run.all_of("turn_{}/reward")
    pairs = zip(run.values(first), run.values(last), strict=True)
    gaps = [later - earlier for earlier, later in pairs][-run.window :]
    gap, error = statistics.fmean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))
    scale = abs(run.end(first))
    seen = f"{last} less that of turn 0: {gap:+.3f} ± {error:.3f}, of {scale:.3f}"
    return gap < -max(2 * error, 0.02 * scale), seen


def reward_hacking(run: Run) -> Verdict:
    """The bonus rises, the substance does not and could."""
    for pair in run.bonuses.items():
        bonus, substance = (f"reward/{part}" for part in pair)
        if run.has(bonus, substance):
            (up, error), (grown, noise) = run.change(bonus), run.change(substance)
            seen = f"{bonus} {up:+.3f} ± {error:.3f}, {substance} {grown:+.3f} ± {noise:.3f}"
            still = grown <= max(noise, 0.02) and run.end(substance) <= ALL
            return up > max(2 * error, 0.02) and still, seen
    return None, "the reward has no bonus beside a substance"


def rollout_mismatch(run: Run) -> Verdict:
    """The update scores the sampled tokens otherwise than the decode that drew them.

    A token's ratio of probabilities, which the algorithm takes for 1, has a logarithm; of equal and
    independent errors, that of a whole response is sqrt(tokens) times as wide.
    """
    mean, largest = run.end("logp_difference/mean"), max(run.values("logp_difference/max"))
    length = run.end("completions/0/mean_length")
    whole = mean * math.sqrt(math.pi / 2 * length)  # a normal error's deviation from its mean size
    seen = f"log-probabilities differ by {mean:.1g} a token, {largest:.1g} at most"
    return whole > FAR, f"{seen}; a whole response's by {whole:.1g}"


SIGNS = (  # check, metrics without which the run does not show it, what to try
    (
        nothing_to_learn,
        ["frac_reward_zero_std"],
        "look at samples.jsonl: a reward with steps between nothing and all, easier problems, or "
        "more samples (--num-generations); at the end of a run, a lower --lr",
    ),
    (
        silent_agent,
        ["completions/1/mean_length"],
        "look at samples.jsonl: does the reward pay for what this agent can add? More samples "
        "(--num-generations) and --joint cross show an agent what its partner needs",
    ),
    (
        feedback_shock,
        ["turn_1/reward"],
        "train with one turn first and go on from there (`python train.py --run one`, then "
        "`python train.py --init one --turns 2`, with the other flags of this run); shorter "
        "feedback (--feedback); smaller --lr",
    ),
    (
        reward_hacking,
        [],
        "read what earns the bonus in samples.jsonl; let the reward tie it to the substance, as a "
        "task's own does beside its _paper form; stop earlier, or --kl-coef 0.02",
    ),
    (
        rollout_mismatch,
        ["logp_difference/mean", "logp_difference/max", "completions/0/mean_length"],
        "--bits 32 tells whether rounding does it; if not, what is sampled is not what is scored: "
        "look for a change of the one and not of the other (temperature, adapters, weights)",
    ),
)


def examine(rows: list[dict], samples: list[dict], task=Task) -> list[Finding]:
    """What every check says of these lines of metrics.jsonl and samples.jsonl, of a run of `task`
    (the object or its class)."""
    run, findings = Run(rows, samples, task.bonuses), []
    signs = SIGNS + (resolve(task.signs, {}, "table of signs") if task.signs else ())
    for check, metrics, advice in signs if len(run.rows) >= STEPS else ():
        missing = [name for name in metrics if not run.has(name)]
        fired, seen = (None, f"the run has no {missing[0]}") if missing else check(run)
        findings.append(Finding(check.__name__.replace("_", " "), fired, seen, advice))
    return findings


def examine_run(directory: Path, task=Task) -> list[Finding]:
    """The same of a run's folder; ValueError where there is none."""
    lines = {"metrics.jsonl": [], "samples.jsonl": []}
    if not (directory / "metrics.jsonl").is_file():
        raise ValueError(f"{directory} is not a run: it has no metrics.jsonl")
    for file in filter(Path.is_file, map(directory.joinpath, lines)):
        try:
            with file.open() as rows:
                lines[file.name] = [json.loads(line) for line in rows]
        except ValueError as error:
            raise ValueError(f"{file} is not what train.py writes: {error}") from error
    return examine(*lines.values(), task)


def warnings(directory: Path, known: set[str], task) -> list[str]:
    """One line for each sign that fires and is not yet in `known`, which grows by it."""
    new = [f for f in examine_run(directory, task) if f.fired and f.name not in known]
    known |= {finding.name for finding in new}
    return [f"sign of {f.name}: {f.seen}. Try: {f.advice}" for f in new]


def report(directory: Path) -> str:
    """All checks of a run, for the terminal."""
    known = (directory / "args.json").is_file()
    task = task_class(read_args(directory)["args"]["task"]) if known else Task
    findings = examine_run(directory, task)
    if not findings:
        return f"{directory}: too short to tell anything (fewer than {STEPS} steps)"
    lines = [str(directory)]
    for finding in findings:
        state = {True: "SEEN", False: "not seen", None: "cannot tell"}[finding.fired]
        lines.append(f"{finding.name:<25}{state:<12}{finding.seen}")
        if finding.fired:
            lines.append(f"{'':<25}try:        {finding.advice}")
    return "\n".join(lines)
