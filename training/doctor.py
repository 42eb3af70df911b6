"""Find known signs of failure in a run's metrics, and say what to try.

SIGNS are the signs of every task. A task may name a table of further signs (`signs`). It may also
say which part of its reward is a bonus on which other part (`bonuses`). A check judges the last
fifth of the steps, or compares it with the first fifth. A run with fewer than STEPS steps is not
judged. The thresholds are rules of thumb: a sign is a reason to look, not a proof.
"""

import fnmatch
import itertools
import math
import operator
import statistics
from collections import defaultdict, namedtuple
from pathlib import Path

from training.folder import read_args, read_records
from training.plugins import resolve, task_class

STEPS = 20  # the fewest steps that can be judged
SILENT = 2.0  # tokens of a response that says nothing, its end included
ALL = 0.95  # fraction of groups, or of the maximum return, that counts as all of it
FAR = 1.0  # log-ratio above which a response is mis-weighted by a factor of e
MEASURABLE = 0.02  # the smallest change, or fraction, that counts
Finding = namedtuple("Finding", "name fired seen advice")  # fired is None: the run cannot tell


class Run:
    """The series of a run's metrics, by name, and the samples of its last steps (`late`).

    A series has the steps that logged the metric: a silent agent logs nothing at a step.
    """

    def __init__(self, rows: list[dict], samples: list[dict]):
        self.rows = [row for row in rows if "return" in row]  # the others are evaluations
        self.series = defaultdict(list)  # name -> values
        for row in self.rows:
            for name, value in row.items():
                self.series[name].append(value)
        start = len(self.rows) - 2 * fifth(self.rows)
        self.late = [sample for sample in samples if sample["step"] >= start]

    def names(self, pattern: str) -> list[str]:
        """Return the metrics of a pattern, such as completions/*/mean_length, one for each agent.

        A metric of fewer than STEPS steps is left out.
        """
        names = [name for name, values in self.series.items() if len(values) >= STEPS]
        return fnmatch.filter(names, pattern)

    def mean(self, name: str) -> float:
        """Return the mean over all steps."""
        return statistics.fmean(self.series[name])

    def start(self, name: str) -> float:
        """Return the mean over the first fifth of the steps."""
        values = self.series[name]
        return statistics.fmean(values[: fifth(values)])

    def end(self, name: str) -> float:
        """Return the mean over the last fifth of the steps."""
        values = self.series[name]
        return statistics.fmean(values[-fifth(values) :])

    def change(self, name: str) -> tuple[float, float]:
        """Return the mean of the last fifth minus that of the first, and its standard error."""
        values = self.series[name]
        window = fifth(values)
        first = statistics.variance(values[:window])
        last = statistics.variance(values[-window:])
        error = math.sqrt((first + last) / window)
        return self.end(name) - self.start(name), error

    def shown(self, patterns: list[str]) -> str:
        """Return the metrics' first and last values, in words."""
        names = itertools.chain(*map(self.names, patterns))
        texts = [f"{name} {self.start(name):.3g} -> {self.end(name):.3g}" for name in names]
        return ", ".join(dict.fromkeys(texts))  # a metric of several patterns is shown once


def fifth(values: list) -> int:
    """Return the number of values in the first, or the last, fifth."""
    return len(values) // 5


def nothing_to_learn(run: Run) -> bool:
    """Return whether the joint responses of a group all earn the same, far from the maximum."""
    return run.end("frac_reward_zero_std") >= ALL > run.end("return")


def silent_agent(run: Run) -> bool:
    """Return whether an agent fell silent. If its answers began at one token, the task is so."""
    lengths = run.names("completions/*/mean_length")
    return any(run.end(name) <= SILENT < run.start(name) for name in lengths)


def feedback_shock(run: Run) -> bool | None:
    """Return whether the last scored turn earns less than the first. Other turns log 0."""
    turns = [name for name in run.names("turn_*/reward") if any(run.series[name])]
    if len(turns) < 2:
        return None
    first, *_, last = turns
    gaps = list(map(operator.sub, run.series[last], run.series[first]))
    gaps = gaps[-fifth(gaps) :]
    error = statistics.stdev(gaps) / math.sqrt(len(gaps))
    measurable = max(2 * error, MEASURABLE * abs(run.end(first)))
    return statistics.fmean(gaps) < -measurable


def rollout_mismatch(run: Run) -> bool:
    """Return whether the update scores the sampled tokens otherwise than the decode did.

    The algorithm takes a token's ratio of probabilities for 1. If the errors of its logarithm are
    independent and equal, a response's error is sqrt(tokens) times as wide. A normal error's
    deviation is sqrt(pi / 2) times its mean size.
    """
    length = run.end("completions/0/mean_length")
    return run.end("logp_difference/mean") * math.sqrt(math.pi / 2 * length) > FAR


def hacked(bonus: str, substance: str):
    """Return the check that the bonus rises, and that the substance could rise and does not."""

    def reward_hacking(run: Run) -> bool:
        rise, error = run.change(bonus)
        growth, noise = run.change(substance)
        if growth > max(noise, MEASURABLE) or run.end(substance) > ALL:
            return False
        return rise > max(2 * error, MEASURABLE)

    return reward_hacking


NOTHING = "a reward with steps between nothing and all, easier problems, more --num-generations"
SIGNS = (  # check, metrics that it reads (without them it cannot tell), what to try
    (
        nothing_to_learn,
        ["frac_reward_zero_std", "return"],
        NOTHING,
    ),
    (
        silent_agent,
        ["completions/*/mean_length"],
        "does the reward pay for what this agent can add? More --num-generations, --joint cross",
    ),
    (
        feedback_shock,
        ["turn_1/reward", "turn_*/reward"],
        "train with one turn first and go on from there (--init); shorter feedback; a lower --lr",
    ),
    (
        rollout_mismatch,
        ["logp_difference/mean", "completions/0/mean_length"],
        "--bits 32 tells whether rounding does it; if not, what is sampled is not what is scored "
        "(an --engine: has it this base, and --logprobs-mode processed_logprobs?)",
    ),
)
HACKING = "let the reward tie the bonus to the substance; stop earlier, or --kl-coef 0.02"


def examine(rows: list[dict], samples: list[dict], task) -> list[Finding]:
    """Return what every check says of a run. task: the task or its class."""
    run = Run(rows, samples)
    if len(run.rows) < STEPS:
        return []
    signs = list(SIGNS)
    for bonus, substance in task.bonuses.items():
        bonus = f"reward/{bonus}"
        substance = f"reward/{substance}"
        signs.append((hacked(bonus, substance), [bonus, substance], HACKING))
    if task.signs:
        signs += resolve(task.signs, {}, "table of signs")
    findings = []
    for check, metrics, advice in signs:
        name = check.__name__.replace("_", " ")
        missing = [metric for metric in metrics if not run.names(metric)]
        if missing:
            seen = f"fewer than {STEPS} steps have {missing[0]}"
            findings.append(Finding(name, None, seen, advice))
        else:
            findings.append(Finding(name, check(run), run.shown(metrics), advice))
    return findings


def report(directory: Path) -> str:
    """Return all checks of a run for the terminal. Raise ValueError if it is not a run."""
    task = task_class(read_args(directory)["args"]["task"])
    rows = read_records(directory / "metrics.jsonl")
    samples = read_records(directory / "samples.jsonl")
    findings = examine(rows, samples, task)
    if not findings:
        return f"{directory}: too short to tell anything (fewer than {STEPS} steps)"
    seen = ", ".join(finding.name for finding in findings if finding.fired)
    lines = [f"{directory}: {f'signs of failure: {seen}' if seen else 'no sign of failure'}\n"]
    for finding in findings:
        state = {True: "SEEN", False: "not seen", None: "cannot tell"}[finding.fired]
        lines.append(f"{finding.name:<25}{state:<12}{finding.seen}")
        if finding.fired:
            lines.append(f"{'':<25}try:        {finding.advice}; read samples.jsonl")
    return "\n".join(lines)
