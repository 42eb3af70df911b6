"""Signs of failure of a coding team, beside those of every run (running/doctor.py): the ones that
arXiv 2508.04652 tells to watch for. `run` is the doctor's Run.
"""

from collections import Counter, defaultdict

OFTEN, SELDOM = 0.5, 0.15  # shares
SOLVED = 0.3  # share of joint responses that pass, for a task that the team can do
ENOUGH = 10  # problems, for a helper that comes back over them
SAMPLES = 20  # late joint responses, for errors that run from one agent to the next


def trivial_cooperation(run) -> tuple[bool, str]:
    """In most of the passing joint responses the helpers add nothing that any helper would not, or
    do the whole work; or one helper comes back over many problems."""
    names = ("pass", "aux_called", "wrapper", "load_bearing")
    passed, called, wrapper, needed = (run.end(f"metric/{name}") for name in names)
    asks = any(run.values("metric/load_bearing"))  # code_paper does not
    idle = called < SELDOM or wrapper > OFTEN * passed or (asks and needed < OFTEN * passed)
    fired = passed >= SOLVED and idle
    seen = f"pass {passed:.2f}, helper called {called:.2f}, wrapper {wrapper:.2f}"
    seen += f", needed {needed:.2f}" if asks else ""
    again, problems = same_helper(late_teams(run))
    if problems >= ENOUGH:
        fired |= again > OFTEN * problems
        seen += f"; the most frequent helper: in {again} of {problems} problems"
    return fired, seen


def late_teams(run) -> list[dict]:
    """The late samples of more than one agent."""
    return [s for s in run.late if "metric/pass" in s["parts"] and len(s["responses"]) > 1]


def same_helper(samples: list[dict]) -> tuple[int, int]:
    """In how many problems the most frequent helper occurs, and how many problems there are.

    A helper that knows something of its problem is rare elsewhere: the same text everywhere is the
    cheapest alarm for a convention that fits every problem.
    """
    texts = {("\n".join(t.split()), s["task_id"]) for s in samples for t in s["responses"][:-1]}
    problems = Counter(text for text, _ in texts if text)
    return max(problems.values(), default=0), len({problem for _, problem in texts})


def no_cooperative_structure(run) -> tuple[bool | None, str]:
    """The tests were passed all along, and hardly ever by work divided."""
    names = ("metric/pass", "metric/coop", "metric/load_bearing", "reward/cooperation")
    passed, divided, needed, bonus = map(run.mean, names)
    if bonus > 0 and not needed:  # code_paper
        return None, "the reward does not look whether work was divided"
    seen = f"over all steps, pass {passed:.2f}, pass with work divided {divided:.2f}"
    return passed >= SOLVED and divided < SELDOM * passed, seen


def cascading_errors(run) -> tuple[bool | None, str]:
    """Main functions that pass with another helper fail with theirs, and have no fallback."""
    samples, results = late_teams(run), defaultdict(list)
    if len(samples) < SAMPLES:
        return None, f"only {len(samples)} late joint responses"
    for sample in samples:
        main = (sample["step"], sample["turn"], sample["responses"][-1])
        results[main].append(sample["parts"]["metric/pass"] == 1)
    failures = {main: passed.count(False) for main, passed in results.items()}
    cascades = sum(failures[m] for m in failures if any(results[m]) and "except" not in m[-1])
    seen = f"{cascades} of {sum(failures.values())} failures (of {len(samples)} late joint "
    seen += "responses) have a main function that passes with another helper and has no fallback"
    return cascades > max(SELDOM * len(samples), 3), seen


SIGNS = (  # check, metrics without which the run does not show it, what to try
    (
        trivial_cooperation,
        ["metric/pass", "metric/load_bearing", "completions/1/mean_length"],
        "look at samples.jsonl; the strict reward (code) pays for helpers that the tests need, and "
        "nothing for a helper that fits any problem; more samples (--num-generations) and --joint "
        "cross show an agent what its partner needs",
    ),
    (
        no_cooperative_structure,
        ["metric/pass", "metric/load_bearing", "reward/cooperation"],
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
)
