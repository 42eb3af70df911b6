"""Known signs of failure in a run's metrics: what is seen, in numbers, and what to try.

SIGNS, at the end, is the table of them. The first and the last are of every method that learns from
groups, the others are those that arXiv 2508.04652 tells to watch for. The last fifth of the steps
is judged, or compared with the first fifth. Nothing is said of a run with fewer than 20 steps. The
thresholds are rules of thumb: a sign is a reason to look, not a proof.
"""

import json
import math
import statistics
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

STEPS = 20  # below, nothing is said
SILENT = 2.0  # tokens of a response that says nothing, its end included
OFTEN, SELDOM = 0.5, 0.15  # shares
ALL = 0.95  # share of groups without a difference; share of the most that counts as the most
SOLVED = 0.3  # share of joint responses that pass, for a task that the team can do
FAR = 1.0  # log of the ratio, by which one response counts e times as much as another, or a third
BONUSES = {"reward/cooperation": "reward/tests", "reward/coherence": "reward/consistency"}

Verdict = tuple[bool | None, str]  # is it seen (None: the run does not show it), and the numbers


class Finding(NamedTuple):
    name: str
    fired: bool | None
    seen: str
    advice: str


class Run:
    """The metrics of a run: one list of values per name, one value per step."""

    def __init__(self, rows: list[dict], samples: list[dict]):
        self.rows = [row for row in rows if "return" in row]  # the others are evaluations
        self.window = max(len(self.rows) // 5, STEPS // 5)
        start = len(self.rows) - 2 * self.window
        code = [s for s in samples if s["step"] >= start and "metric/pass" in s["parts"]]
        self.late = [s for s in code if len(s["responses"]) > 1]  # of code teams

    def has(self, *names: str) -> bool:
        return all(name in self.rows[-1] for name in names)

    def count(self, name: str) -> int:
        """How many metrics there are of a name with a number in it."""
        return next(n for n in range(len(self.rows[-1]) + 1) if not self.has(name.format(n)))

    def values(self, name: str) -> list[float]:
        return [row[name] for row in self.rows]

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


def trivial_cooperation(run: Run) -> Verdict:
    """An agent writes nothing; or in most of the passing joint responses the helpers add nothing
    that any helper would not, or do the whole work; or one helper comes back over many problems."""
    agents = range(run.count("completions/{}/mean_length"))
    lengths = [run.end(f"completions/{agent}/mean_length") for agent in agents]
    seen = [f"agent {agent}: {length:.1f} tokens" for agent, length in enumerate(lengths)]
    fired = min(lengths) <= SILENT
    names = [f"metric/{name}" for name in ("pass", "aux_called", "wrapper", "load_bearing")]
    if run.has(*names):
        passed, called, wrapper, needed = map(run.end, names)
        asks = any(run.values("metric/load_bearing"))  # code_paper does not
        idle = called < SELDOM or wrapper > OFTEN * passed or (asks and needed < OFTEN * passed)
        fired |= passed >= SOLVED and idle
        seen.append(f"pass {passed:.2f}, helper called {called:.2f}, wrapper {wrapper:.2f}")
        seen[-1] += f", needed {needed:.2f}" if asks else ""
    again, problems = same_helper(run.late)
    if problems >= STEPS // 2:
        fired |= again > OFTEN * problems
        seen.append(f"the most frequent helper: in {again} of {problems} problems")
    return fired, "; ".join(seen)


def same_helper(samples: list[dict]) -> tuple[int, int]:
    """In how many problems the most frequent helper occurs, and how many problems there are.

    A helper that knows something of its problem is rare elsewhere: the same text everywhere is the
    cheapest alarm for a convention that fits every problem.
    """
    texts = {("\n".join(t.split()), s["task_id"]) for s in samples for t in s["responses"][:-1]}
    problems = Counter(text for text, _ in texts if text)
    return max(problems.values(), default=0), len({problem for _, problem in texts})


def feedback_shock(run: Run) -> Verdict:
    """A later turn earns less than the first."""
    last = run.count("turn_{}/reward") - 1
    pairs = zip(run.values("turn_0/reward"), run.values(f"turn_{last}/reward"), strict=True)
    gaps = [later - first for first, later in pairs][-run.window :]
    gap, error = statistics.fmean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))
    scale = abs(run.end("turn_0/reward"))
    seen = f"turn {last} earns {gap:+.3f} ± {error:.3f} over turn 0, of {scale:.3f}"
    return gap < -max(2 * error, 0.02 * scale), seen


def reward_hacking(run: Run) -> Verdict:
    """The bonus rises, the substance does not and could."""
    for bonus, substance in BONUSES.items():
        if run.has(bonus, substance):
            (up, error), (grown, noise) = run.change(bonus), run.change(substance)
            seen = f"{bonus} {up:+.3f} ± {error:.3f}, {substance} {grown:+.3f} ± {noise:.3f}"
            still = grown <= max(noise, 0.02) and run.end(substance) <= ALL
            return up > max(2 * error, 0.02) and still, seen
    return None, "the reward has no bonus beside a substance"


def no_cooperative_structure(run: Run) -> Verdict:
    """The tests were passed all along, and hardly ever by work divided."""
    names = ("metric/pass", "metric/coop", "metric/load_bearing", "reward/cooperation")
    passed, divided, needed, bonus = (statistics.fmean(run.values(name)) for name in names)
    if bonus > 0 and not needed:  # code_paper
        return None, "the reward does not look whether work was divided"
    seen = f"over all steps, pass {passed:.2f}, pass with work divided {divided:.2f}"
    return passed >= SOLVED and divided < SELDOM * passed, seen


def cascading_errors(run: Run) -> Verdict:
    """Main functions that pass with another helper fail with theirs, and have no fallback."""
    mains = defaultdict(list)
    for sample in run.late:
        key = (sample["step"], sample["turn"], sample["responses"][-1])
        mains[key].append(sample["parts"]["metric/pass"] == 1)
    failures = {key: results.count(False) for key, results in mains.items()}
    cascades = sum(failures[k] for k in mains if any(mains[k]) and "except" not in k[-1])
    if len(run.late) < STEPS:
        return None, f"only {len(run.late)} late joint responses"
    seen = f"{cascades} of {sum(failures.values())} failures (of {len(run.late)} late joint "
    seen += "responses) have a main function that passes with another helper and has no fallback"
    return cascades > max(SELDOM * len(run.late), 3), seen


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
        trivial_cooperation,
        ["completions/1/mean_length"],
        "look at samples.jsonl; the strict reward (code) pays for helpers that the tests need, and "
        "nothing for a helper that fits any problem; more samples (--num-generations) and --joint "
        "cross show an agent what its partner needs",
    ),
    (
        feedback_shock,
        ["turn_1/reward"],
        "train with one turn first and go on from there (`python train.py --run one`, then "
        "`python train.py --init one --turns 2`, with the other flags of this run); shorter "
        "feedback (--feedback passed, levels); smaller --lr",
    ),
    (
        reward_hacking,
        [],
        "read what earns the bonus in samples.jsonl; the strict rewards (code, tldr, arxiv) tie it "
        "to the substance; stop earlier, or --kl-coef 0.02",
    ),
    (
        no_cooperative_structure,
        ["metric/pass", "metric/coop", "metric/load_bearing", "reward/cooperation"],
        "the problems may be too small to divide: choose larger ones (coophumaneval rather than "
        "humaneval), or see with --num-agents 1 whether one agent does as well",
    ),
    (
        cascading_errors,
        [],
        "train the helper longer; --joint cross scores a main with every helper and says which was "
        "at fault. A main that passes by itself if the helper fails (a fallback) hides the errors, "
        "and the strict reward (code) pays no cooperation for it: the helper adds nothing",
    ),
    (
        rollout_mismatch,
        ["logp_difference/mean", "logp_difference/max", "completions/0/mean_length"],
        "--bits 32 tells whether rounding does it; if not, what is sampled is not what is scored: "
        "look for a change of the one and not of the other (temperature, adapters, weights)",
    ),
)


def examine(rows: list[dict], samples: list[dict]) -> list[Finding]:
    """What every check says of these lines of metrics.jsonl and samples.jsonl."""
    run, findings = Run(rows, samples), []
    for check, metrics, advice in SIGNS if len(run.rows) >= STEPS else ():
        missing = [name for name in metrics if not run.has(name)]
        fired, seen = (None, f"the run has no {missing[0]}") if missing else check(run)
        findings.append(Finding(check.__name__.replace("_", " "), fired, seen, advice))
    return findings


def examine_run(directory: Path) -> list[Finding]:
    """The same of a run's folder; ValueError where there is none."""
    lines = {"metrics.jsonl": [], "samples.jsonl": []}
    if not (directory / "metrics.jsonl").is_file():
        raise ValueError(f"{directory} is not a run: it has no metrics.jsonl")
    for file in filter(Path.is_file, map(directory.joinpath, lines)):
        try:
            lines[file.name] = [json.loads(line) for line in file.read_text().splitlines()]
        except ValueError as error:
            raise ValueError(f"{file} is not what train.py writes: {error}") from error
    return examine(*lines.values())


def warnings(directory: Path, known: set[str]) -> list[str]:
    """One line for each sign that fires and is not yet in `known`, which grows by it."""
    new = [f for f in examine_run(directory) if f.fired and f.name not in known]
    known |= {finding.name for finding in new}
    return [f"sign of {f.name}: {f.seen}. Try: {f.advice}" for f in new]


def report(directory: Path) -> str:
    """All checks of a run, for the terminal."""
    findings = examine_run(directory)
    if not findings:
        return f"{directory}: too short to tell anything (fewer than {STEPS} steps)"
    lines = [str(directory)]
    for finding in findings:
        state = {True: "SEEN", False: "not seen", None: "cannot tell"}[finding.fired]
        lines.append(f"{finding.name:<25}{state:<12}{finding.seen}")
        if finding.fired:
            lines.append(f"{'':<25}try:        {finding.advice}")
    return "\n".join(lines)
