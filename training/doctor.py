"""Find known signs of failure in a run's metrics, and say what to try.

SIGNS are the signs of every task. A task may name a table of further signs (`signs`). It may also
say which part of its reward is a bonus on which other part (`bonuses`). A check judges the last
fifth of the steps, or compares it with the first fifth. A run with fewer than STEPS steps is not
judged. The thresholds are rules of thumb: a sign is a reason to look, not a proof.
"""

import fnmatch
import math
import re
import statistics
from collections import defaultdict, namedtuple
from pathlib import Path

from training.contract import called
from training.plugins import resolve, task_class
from training.run_folder import read_args, read_records

STEPS = 20  # the fewest steps that can be judged
SILENT = 2.0  # tokens of a response that says nothing, its end included
ALL = 0.95  # fraction of groups, or of the maximum return, that counts as all of it
FAR = 1.0  # log-ratio above which a response is mis-weighted by a factor of e
MEASURABLE = 0.02  # the smallest change, or fraction, that counts
PLAYED = "mean_turns"  # logged with several turns only
Finding = namedtuple("Finding", "name fired seen advice")  # fired is None: the run cannot tell


class Run:
    """The series of a run's metrics, by name, its flags, and its last steps' samples (`late`).

    A series has the steps that logged the metric: a silent agent logs nothing at a step.
    """

    def __init__(self, rows: list[dict], samples: list[dict], flags: dict):
        self.flags = flags
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

    def shown(self, metrics: dict[str, str]) -> str:
        """Return the metrics' first and last values. metrics: patterns with their words."""
        texts = {}  # a metric of several patterns is shown once, in the words of the first
        for pattern, words in metrics.items():
            for name in self.names(pattern):
                values = f"{self.start(name):.3g} -> {self.end(name):.3g}"
                texts.setdefault(name, f"{words} ({name}) {values}")
        return ", ".join(texts.values())


def fifth(values: list) -> int:
    """Return the number of values in the first, or the last, fifth."""
    return len(values) // 5


def nothing_to_learn(run: Run) -> bool | None:
    """Return whether hardly any response has an advantage, far from the maximum.

    The maximum may be earned on the last turn, discounted. If episodes end early, it may be that of
    the turns which are played. Then the answer is None.
    """
    if run.end("groups_with_gradient") > 1 - ALL:
        return False
    turns = run.flags["turns"]
    full = ALL * run.flags["gamma"] ** (turns - 1)
    if run.end("return") >= full:
        return False
    played = run.end(PLAYED) if turns > 1 else 1
    return None if run.end("return") >= full * played / turns else True


def silent_agent(run: Run) -> bool:
    """Return whether an agent fell silent. If its answers began at one token, the task is so."""
    lengths = run.names("completions/*/mean_length")
    return any(run.end(name) <= SILENT < run.start(name) for name in lengths)


def feedback_shock(run: Run) -> bool | None:
    """Return whether the last scored turn earns less than the first. Other turns log 0.

    Only steps count at which all episodes reach the last turn. Elsewhere it has other problems.
    """
    turns = [name for name in run.names("turn_*/reward") if any(run.series[name])]
    if len(turns) < 2:
        return None
    first, *_, last = turns
    gaps = []
    for row in run.rows:
        if last in row and run.flags["turns"] - row[PLAYED] < MEASURABLE:
            gaps.append(row[last] - row[first])
    if len(gaps) < STEPS:
        return None
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


NOTHING = (
    "a reward with steps between nothing and all; easier problems; more --num-generations; "
    "a larger --max-new-tokens, if responses are cut off"
)
SOLVED = "harder problems, or stop here: all joint responses earn the maximum, or nearly"
LENGTH = "tokens of a response"
SIGNS = (  # check, metrics that it needs with their words, what to try (see `open_advice`)
    (
        nothing_to_learn,
        {
            "groups_with_gradient": "share of groups with an advantage",
            "return": "share of the largest return",
            PLAYED: "turns played",
        },
        NOTHING,
    ),
    (
        silent_agent,
        {"completions/*/mean_length": LENGTH},
        "does the reward pay for what this agent can add?; more --num-generations; --joint cross",
    ),
    (
        feedback_shock,
        {"turn_1/reward": "reward of turn 1", "turn_*/reward": "reward", PLAYED: "turns played"},
        "train with one turn first and go on from it, --init RUN; shorter feedback; a lower --lr",
    ),
    (
        rollout_mismatch,
        {
            "logp_difference/mean": "nats between decode and update, a token",
            "completions/0/mean_length": LENGTH,
        },
        "--bits 32 tells whether rounding does it; what is sampled may not be what is scored "
        "(an --engine: has it this base, and --logprobs-mode processed_logprobs?)",
    ),
)
HACKING = "let the reward tie the bonus to the substance; stop earlier; --kl-coef WEIGHT, say 0.02"


def remedy(earned: float) -> str:
    """Return what to try where the rewards of each group are equal.

    earned: share of the largest return.
    """
    return SOLVED if earned >= ALL else NOTHING


def open_advice(advice: str, flags: dict) -> str:
    """Return what a run does not follow yet, of pieces of advice with "; " between them.

    A piece may name a flag with a value, `--joint cross`, or in capitals with any, `--init RUN`.
    """
    return "; ".join(piece for piece in advice.split("; ") if not is_followed(piece, flags))


def is_followed(piece: str, flags: dict) -> bool:
    """Return whether a run has the flag that a piece of advice names."""
    for name, value in re.findall(r"--([a-z-]+) (\w+)", piece):
        given = flags.get(name.replace("-", "_"))
        if value.isupper():
            return bool(given)
        values = given if isinstance(given, list) else [given]
        return value in map(str, values)
    return False


def examine(rows: list[dict], samples: list[dict], task, flags: dict) -> list[Finding]:
    """Return what every check says of a run. task: the task or its class."""
    run = Run(rows, samples, flags)
    if len(run.rows) < STEPS:
        return []
    signs = list(SIGNS)
    for bonus, substance in task.bonuses.items():
        bonus = f"reward/{bonus}"
        substance = f"reward/{substance}"
        words = {bonus: "the bonus", substance: "what it is a bonus on"}
        signs.append((hacked(bonus, substance), words, HACKING))
    if task.signs:
        signs += resolve(task.signs, {}, "table of signs")
    findings = []
    for check, metrics, advice in signs:
        name = check.__name__.replace("_", " ")
        advice = open_advice(advice, flags)
        needed = metrics.keys() - ({PLAYED} if flags["turns"] == 1 else set())
        missing = [metric for metric in metrics if metric in needed and not run.names(metric)]
        if missing:
            seen = f"fewer than {STEPS} steps have {missing[0]}"
            findings.append(Finding(name, None, seen, advice))
        else:
            fired = called(f"the check {check.__name__}", check, run)
            findings.append(Finding(name, fired, run.shown(metrics), advice))
    return findings


def report(directory: Path) -> str:
    """Return all checks of a run for the terminal. Raise ValueError if it is not a run."""
    flags = read_args(directory)["args"]
    task = task_class(flags["task"])
    flags["reward"] = flags["reward"] or task.reward
    rows = read_records(directory / "metrics.jsonl")
    samples = read_records(directory / "samples.jsonl")
    findings = examine(rows, samples, task, flags)
    if not findings:
        return f"{directory}: too short to tell anything (fewer than {STEPS} steps)"
    seen = ", ".join(finding.name for finding in findings if finding.fired)
    lines = [f"{directory}: {f'signs of failure: {seen}' if seen else 'no sign of failure'}\n"]
    for finding in findings:
        state = {True: "SEEN", False: "not seen", None: "cannot tell"}[finding.fired]
        lines.append(f"{finding.name:<25}{state:<12}{finding.seen}")
        if finding.fired:
            advice = "; ".join(filter(None, [finding.advice, "read samples.jsonl"]))
            lines.append(f"{'':<25}try:        {advice}")
    return "\n".join(lines)
