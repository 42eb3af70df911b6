"""Known signs of failure in a run's metrics, and what to try.

SIGNS are those of every task; a task may have more (`signs`, the name of such a table) and may say
which part of its reward is a bonus on which other one (`bonuses`). The last fifth of the steps is
judged, or compared with the first fifth. Nothing is said of a run with fewer than 20 steps. The
thresholds are rules of thumb: a sign is a reason to look, not a proof.
"""

import math
import statistics
from collections import defaultdict, namedtuple
from fnmatch import fnmatch
from pathlib import Path

from training.folder import read_args, read_records
from training.plugins import resolve, task_class

STEPS = 20  # below, nothing is said
SILENT = 2.0  # tokens of a response that says nothing, its end included
ALL = 0.95  # share of groups without a difference; share of the most that counts as the most
FAR = 1.0  # log of the ratio, by which one response counts e times as much as another, or a third
Finding = namedtuple("Finding", "name fired seen advice")  # fired None: the run does not show it


class Run:
    """The metrics of a run by name, each over the steps that have it, as an agent that does not
    speak at a step has none there; `late`, the samples of the last steps."""

    def __init__(self, rows: list[dict], samples: list[dict]):
        self.rows = [row for row in rows if "return" in row]  # the others are evaluations
        self.series: dict[str, list[float]] = defaultdict(list)
        for row in self.rows:
            for name, value in row.items():
                self.series[name].append(value)
        start = len(self.rows) - 2 * fifth(self.rows)
        self.late = [sample for sample in samples if sample["step"] >= start]

    def names(self, pattern: str) -> list[str]:
        """The metrics of a pattern, as completions/*/mean_length: one for each agent. One that
        fewer than STEPS steps have tells nothing."""
        known = [name for name, values in self.series.items() if len(values) >= STEPS]
        return [name for name in known if fnmatch(name, pattern)]

    def values(self, name: str) -> list[float]:
        return self.series[name]

    def mean(self, name: str) -> float:
        """Over all steps."""
        return statistics.fmean(self.values(name))

    def start(self, name: str) -> float:
        """Mean over the first fifth of the steps."""
        values = self.values(name)
        return statistics.fmean(values[: fifth(values)])

    def end(self, name: str) -> float:
        """Mean over the last fifth of the steps."""
        values = self.values(name)
        return statistics.fmean(values[-fifth(values) :])

    def change(self, name: str) -> tuple[float, float]:
        """Last fifth minus first fifth, and its standard error."""
        values = self.values(name)
        window = fifth(values)
        spreads = statistics.variance(values[:window]) + statistics.variance(values[-window:])
        return self.end(name) - self.start(name), math.sqrt(spreads / window)

    def shown(self, patterns: list[str]) -> str:
        """What the metrics were and are."""
        names = dict.fromkeys(name for pattern in patterns for name in self.names(pattern))
        ends = {name: (self.start(name), self.end(name)) for name in names}
        return ", ".join(f"{name} {was:.3g} -> {now:.3g}" for name, (was, now) in ends.items())


def fifth(values: list) -> int:
    """Return how many of the values are the last fifth, or the first."""
    return max(len(values) // 5, STEPS // 5)


def nothing_to_learn(run: Run) -> bool:
    """The joint responses of a group all earn the same, far from the most."""
    return run.end("frac_reward_zero_std") >= ALL > run.end("return")


def silent_agent(run: Run) -> bool:
    """An agent says nothing any more. One-token answers from the start on are the task's."""
    lengths = run.names("completions/*/mean_length")
    return any(run.end(name) <= SILENT < run.start(name) for name in lengths)


def feedback_shock(run: Run) -> bool | None:
    """The last turn that is scored earns less than the first. One that is not scored logs 0."""
    turns = [name for name in run.names("turn_*/reward") if any(run.values(name))]
    if len(turns) < 2:
        return None
    first, *_, last = turns
    pairs = zip(run.values(last), run.values(first), strict=True)
    gaps = [later - earlier for later, earlier in pairs]
    gaps = gaps[-fifth(gaps) :]
    error = statistics.stdev(gaps) / math.sqrt(len(gaps))
    return statistics.fmean(gaps) < -max(2 * error, 0.02 * abs(run.end(first)))


def idle(agent: int):
    """The check that what one of two agents says never mattered, alone or together. Over all steps:
    who has learned to say one thing does not vary any more, and has no influence then."""

    def idle_agent(run: Run) -> bool:
        names = f"influence/{agent}", f"influence/{1 - agent}", "influence/together"
        own, other, together = (max(run.mean(name), 0.0) for name in names)
        return own + together < 0.02 * (own + other + together)

    idle_agent.__name__ = f"agent_{agent}_does_not_matter"
    return idle_agent


def rollout_mismatch(run: Run) -> bool:
    """The update scores the sampled tokens otherwise than the decode that drew them.

    A token's ratio of probabilities, which the algorithm takes for 1, has a logarithm; of equal and
    independent errors, that of a whole response is sqrt(tokens) times as wide, and a normal error's
    deviation is sqrt(pi / 2) times its mean size.
    """
    length = run.end("completions/0/mean_length")
    return run.end("logp_difference/mean") * math.sqrt(math.pi / 2 * length) > FAR


def hacked(bonus: str, substance: str):
    """The check that the bonus rises, and the substance does not and could."""

    def reward_hacking(run: Run) -> bool:
        (up, error), (grown, noise) = run.change(bonus), run.change(substance)
        still = grown <= max(noise, 0.02) and run.end(substance) <= ALL
        return up > max(2 * error, 0.02) and still

    return reward_hacking


PAYS = "does the reward pay for what this agent can add? "
SIGNS = (  # check, metrics that it reads (without them it cannot tell), what to try
    (
        nothing_to_learn,
        ["frac_reward_zero_std", "return"],
        "a reward with steps between nothing and all, easier problems, more --num-generations",
    ),
    (silent_agent, ["completions/*/mean_length"], PAYS + "More --num-generations, --joint cross"),
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
    (idle(0), ["influence/0", "influence/*"], PAYS + "See frozen-0 and frozen-1 of eval.py"),
    (idle(1), ["influence/1", "influence/*"], PAYS + "See frozen-0 and frozen-1 of eval.py"),
)
HACKING = "let the reward tie the bonus to the substance; stop earlier, or --kl-coef 0.02"


def examine(rows: list[dict], samples: list[dict], task) -> list[Finding]:
    """What every check says of a run's metrics.jsonl and samples.jsonl; task: it or its class."""
    run, signs = Run(rows, samples), list(SIGNS)
    for parts in task.bonuses.items():
        names = [f"reward/{part}" for part in parts]
        signs.append((hacked(*names), names, HACKING))
    if task.signs:
        signs += resolve(task.signs, {}, "table of signs")
    findings = []
    for check, metrics, advice in signs if len(run.rows) >= STEPS else ():
        missing = [name for name in metrics if not run.names(name)]
        fired = None if missing else check(run)
        seen = run.shown(metrics)
        if missing:
            seen = f"fewer than {STEPS} steps have {missing[0]}"
        findings.append(Finding(check.__name__.replace("_", " "), fired, seen, advice))
    return findings


def report(directory: Path) -> str:
    """All checks of a run, for the terminal; ValueError where there is none."""
    task = task_class(read_args(directory)["args"]["task"])
    rows, samples = (read_records(directory / f"{name}.jsonl") for name in ("metrics", "samples"))
    findings = examine(rows, samples, task)
    if not findings:
        return f"{directory}: too short to tell anything (fewer than {STEPS} steps)"
    lines = [str(directory)]
    for finding in findings:
        state = {True: "SEEN", False: "not seen", None: "cannot tell"}[finding.fired]
        lines.append(f"{finding.name:<25}{state:<12}{finding.seen}")
        if finding.fired:
            lines.append(f"{'':<25}try:        {finding.advice}; read samples.jsonl")
    return "\n".join(lines)
