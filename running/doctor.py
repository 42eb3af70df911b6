"""Known signs of failure in a run's metrics: what is seen, in numbers, and what to try.

The first and the last are of every method that learns from groups, the others are those that arXiv
2508.04652 tells to watch for:

| signature                | fires where                                                          |
|--------------------------|----------------------------------------------------------------------|
| nothing to learn         | the joint responses of a group all earn the same, far from the most  |
| trivial cooperation      | an agent writes nothing; or one helper comes back over many          |
|                          | problems; or, in most of the passing joint responses, the helpers    |
|                          | add nothing that any helper would not, or do the whole work          |
| feedback shock           | a later turn earns less than the first                               |
| reward hacking           | the bonus (cooperation, coherence) rises and the substance (tests,   |
|                          | consistency) does not                                                |
| no cooperative structure | the tests were passed all along, and hardly ever by work divided     |
| cascading errors         | main functions that pass with another helper fail with theirs, and   |
|                          | have no fallback                                                     |
| rollout mismatch         | the update scores the sampled tokens otherwise than the decode that  |
|                          | drew them                                                            |

The first and the last fifth of the steps are compared; "rises" means by more than two standard
errors and 0.02. Nothing is said of a run with fewer than 20 steps. Reads metrics.jsonl and, for
cascading errors, samples.jsonl. The thresholds below are rules of thumb: a sign is a reason to
look, not a proof.
"""

import json
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

STEPS = 20  # below, nothing is said
SILENT = 2.0  # tokens of a response that says nothing, its end included
OFTEN, SELDOM = 0.5, 0.15  # shares
ALL = 0.95  # share of groups without a difference; share of the return that is as good as the most
SOLVED = 0.3  # share of joint responses that pass, for a task that the team can do
FAR = 1.0  # log of the ratio, by which one response counts e times as much as another, or a third
BONUS = ("reward/cooperation", "reward/coherence")
SUBSTANCE = ("reward/tests", "reward/consistency")


@dataclass
class Finding:
    """What one check says. fired: None where the run does not show it either way."""

    name: str
    fired: bool | None
    seen: str
    advice: str


class Run:
    """The metrics of a run: one list of values per name, one value per step."""

    def __init__(self, rows: list[dict], samples: list[dict] | None = None):
        self.rows = [row for row in rows if "return" in row]  # the others are evaluations
        self.samples = samples or []
        self.window = max(len(self.rows) // 5, STEPS // 5)

    def has(self, *names: str) -> bool:
        return bool(self.rows) and all(name in self.rows[-1] for name in names)

    def late(self) -> list[dict]:
        """The samples of the last two fifths of the steps."""
        return [s for s in self.samples if s["step"] >= len(self.rows) - 2 * self.window]

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


def nothing_to_learn(run: Run) -> Finding:
    advice = (
        "look at samples.jsonl: a reward with steps between nothing and all, easier problems, or "
        "more samples (--num-generations); at the end of a run, a lower --lr"
    )
    if not run.has("frac_reward_zero_std"):
        return Finding("nothing to learn", None, "", advice)
    equal, worth = run.end("frac_reward_zero_std"), run.end("return")
    seen = f"{equal:.0%} of the groups earn all the same, at a return of {worth:.2f}"
    return Finding("nothing to learn", equal >= ALL > worth, seen, advice)


def same_helper(samples: list[dict]) -> tuple[int, int]:
    """In how many problems the most frequent helper occurs, and how many problems there are.

    A helper that knows something of its problem is rare elsewhere: the same text everywhere is the
    cheapest alarm for a convention that fits every problem.
    """
    found = defaultdict(set)
    for sample in samples:
        if "metric/pass" in sample["parts"]:  # a code task
            for text in sample["responses"][:-1]:
                found["\n".join(text.split())].add(sample["task_id"])
    problems = set().union(*found.values())
    return max((len(ids) for text, ids in found.items() if text), default=0), len(problems)


def trivial_cooperation(run: Run) -> Finding:
    advice = (
        "look at samples.jsonl; the strict reward (code) pays for helpers that the tests need, and "
        "nothing for a helper that fits any problem; more samples (--num-generations) and --joint "
        "cross show an agent what its partner needs"
    )
    lengths = {}
    while run.has(name := f"completions/{len(lengths)}/mean_length"):
        lengths[len(lengths)] = run.end(name)
    silent = [agent for agent, length in lengths.items() if length <= SILENT]
    seen = [f"agent {agent}: {length:.1f} tokens" for agent, length in lengths.items()]
    idle = False
    if run.has(*(f"metric/{name}" for name in ("pass", "aux_called", "wrapper", "load_bearing"))):
        passed, called = run.end("metric/pass"), run.end("metric/aux_called")
        wrapper, needed = run.end("metric/wrapper"), run.end("metric/load_bearing")
        asks = any(run.values("metric/load_bearing"))  # code_paper does not
        idle = passed >= SOLVED and (
            called < SELDOM or wrapper > OFTEN * passed or (asks and needed < OFTEN * passed)
        )
        seen.append(f"pass {passed:.2f}, helper called {called:.2f}, wrapper {wrapper:.2f}")
        seen[-1] += f", needed {needed:.2f}" if asks else ""
    again, problems = same_helper(run.late())
    if problems >= STEPS // 2:
        seen.append(f"the most frequent helper: in {again} of {problems} problems")
    convention = problems >= STEPS // 2 and again > OFTEN * problems
    fired = None if len(lengths) < 2 else bool(silent) or idle or convention
    return Finding("trivial cooperation", fired, "; ".join(seen), advice)


def feedback_shock(run: Run) -> Finding:
    advice = (
        "train with one turn first and go on from there (`python train.py --run one`, then "
        "`python train.py --init one --turns 2`, with the other flags of this run); shorter "
        "feedback (--feedback passed, levels); smaller --lr"
    )
    last = 0
    while run.has(f"turn_{last + 1}/reward"):
        last += 1
    if not last:
        return Finding("feedback shock", None, "the run has one turn", advice)
    first, later = run.values("turn_0/reward"), run.values(f"turn_{last}/reward")
    gaps = [b - a for a, b in zip(first, later, strict=True)][-run.window :]
    gap, error = statistics.fmean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))
    scale = abs(run.end("turn_0/reward"))
    seen = f"turn {last} earns {gap:+.3f} ± {error:.3f} over turn 0, of {scale:.3f}"
    return Finding("feedback shock", gap < -max(2 * error, 0.02 * scale), seen, advice)


def reward_hacking(run: Run) -> Finding:
    advice = (
        "read what earns the bonus in samples.jsonl; the strict rewards (code, tldr, arxiv) tie it "
        "to the substance; stop earlier, or --kl-coef 0.02"
    )
    bonus = [name for name in BONUS if run.has(name)]
    substance = [name for name in SUBSTANCE if run.has(name)]
    if not bonus or not substance:
        return Finding("reward hacking", None, "the reward has no bonus beside a substance", advice)
    changes = {name: run.change(name) for name in (*bonus, *substance)}
    up = [name for name in bonus if changes[name][0] > max(2 * changes[name][1], 0.02)]
    grown = [name for name in substance if changes[name][0] > max(changes[name][1], 0.02)]
    seen = ", ".join(f"{name} {gap:+.3f} ± {error:.3f}" for name, (gap, error) in changes.items())
    at_the_top = run.end(substance[0]) > 0.95  # nothing is left to rise
    return Finding("reward hacking", bool(up) and not grown and not at_the_top, seen, advice)


def no_cooperative_structure(run: Run) -> Finding:
    advice = (
        "the problems may be too small to divide: choose larger ones (coophumaneval rather than "
        "humaneval), or see with --num-agents 1 whether one agent does as well"
    )
    names = ("metric/pass", "metric/coop", "metric/load_bearing", "reward/cooperation")
    if not run.has(*names):
        return Finding("no cooperative structure", None, "the task is not code", advice)
    passed, divided, needed, bonus = (statistics.fmean(run.values(name)) for name in names)
    if bonus > 0 and not needed:  # code_paper
        seen = "the reward does not look whether work was divided"
        return Finding("no cooperative structure", None, seen, advice)
    seen = f"over all steps, pass {passed:.2f}, pass with work divided {divided:.2f}"
    fired = passed >= SOLVED and divided < SELDOM * passed
    return Finding("no cooperative structure", fired, seen, advice)


def cascading_errors(run: Run) -> Finding:
    advice = (
        "train the helper longer; --joint cross scores a main with every helper and says which was "
        "at fault. A main that passes by itself if the helper fails (a fallback) hides the errors, "
        "and the strict reward (code) pays no cooperation for it: the helper adds nothing"
    )
    mains, failures, cascades = defaultdict(list), 0, 0
    for sample in run.late():
        if "metric/pass" in sample["parts"] and len(sample["responses"]) > 1:
            key = (sample["step"], sample["turn"], sample["responses"][-1])
            mains[key].append(sample["parts"]["metric/pass"] == 1)
    for (_, _, text), results in mains.items():
        failures += results.count(False)
        if any(results) and "except" not in text:
            cascades += results.count(False)
    total = sum(map(len, mains.values()))
    seen = f"{cascades} of {failures} failures (of {total} late joint responses) have a main "
    seen += "function that passes with another helper and has no fallback"
    if total < STEPS:
        return Finding("cascading errors", None, f"only {total} late joint responses", advice)
    return Finding("cascading errors", cascades > max(SELDOM * total, 3), seen, advice)


def rollout_mismatch(run: Run) -> Finding:
    """A token's ratio of probabilities, which the algorithm takes for 1, has a logarithm; of equal
    and independent errors, that of a whole response is sqrt(tokens) times as wide."""
    advice = (
        "--bits 32 tells whether rounding does it; if not, what is sampled is not what is scored: "
        "look for a change of the one and not of the other (temperature, adapters, weights)"
    )
    names = ("logp_difference/mean", "logp_difference/max", "completions/0/mean_length")
    if not run.has(*names):
        return Finding("rollout mismatch", None, "", advice)
    mean, largest, length = run.end(names[0]), max(run.values(names[1])), run.end(names[2])
    whole = mean * math.sqrt(math.pi / 2 * length)  # a normal error's deviation from its mean size
    seen = f"log-probabilities differ by {mean:.1g} a token, {largest:.1g} at most"
    seen += f"; a whole response's by {whole:.1g}"
    return Finding("rollout mismatch", whole > FAR, seen, advice)


CHECKS = (
    nothing_to_learn,
    trivial_cooperation,
    feedback_shock,
    reward_hacking,
    no_cooperative_structure,
    cascading_errors,
    rollout_mismatch,
)


def examine(rows: list[dict], samples: list[dict] | None = None) -> list[Finding]:
    """What every check says of these lines of metrics.jsonl and samples.jsonl."""
    run = Run(rows, samples)
    return [check(run) for check in CHECKS] if len(run.rows) >= STEPS else []


def examine_run(directory: Path) -> list[Finding]:
    """The same of a run's folder; ValueError where there is none."""
    lines = {}
    for name in ("metrics.jsonl", "samples.jsonl"):
        file = directory / name
        if name == "metrics.jsonl" and not file.is_file():
            raise ValueError(f"{directory} is not a run: it has no {name}")
        text = file.read_text().splitlines() if file.is_file() else []
        try:
            lines[name] = [json.loads(line) for line in text]
        except ValueError as error:
            raise ValueError(f"{file} is not what train.py writes: {error}") from error
    return examine(lines["metrics.jsonl"], lines["samples.jsonl"])


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
