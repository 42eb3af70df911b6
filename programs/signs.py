"""Signs of failure of a coding team, beside those of every run (training/doctor.py): the ones that
arXiv 2508.04652 tells to watch for. `run` is the doctor's Run.
"""

from collections import defaultdict

OFTEN, SELDOM = 0.5, 0.15  # shares
SOLVED = 0.3  # share of joint responses that pass, for a task that the team can do
ADDED = ("pass", "aux_called", "wrapper", "load_bearing")  # metrics of what helpers add
SAMPLES = 20  # late joint responses, for errors that run from one agent to the next


def trivial_cooperation(run) -> bool:
    """In most of the passing joint responses the helpers add nothing that any helper would not, or
    do the whole work."""
    passed, called, wrapper, needed = (run.end(f"metric/{name}") for name in ADDED)
    asks = any(run.values("metric/load_bearing"))  # code_paper does not
    idle = called < SELDOM or wrapper > OFTEN * passed or (asks and needed < OFTEN * passed)
    return passed >= SOLVED and idle


def no_cooperative_structure(run) -> bool | None:
    """The tests were passed all along, and hardly ever by work divided."""
    passed, divided = run.mean("metric/pass"), run.mean("metric/coop")
    if run.mean("reward/cooperation") > 0 and not run.mean("metric/load_bearing"):
        return None  # code_paper does not look whether work was divided
    return passed >= SOLVED and divided < SELDOM * passed


def cascading_errors(run) -> bool | None:
    """Main functions that pass with another helper fail with theirs, and have no fallback."""
    samples = [s for s in run.late if "metric/pass" in s["parts"] and len(s["responses"]) > 1]
    if len(samples) < SAMPLES:
        return None
    results = defaultdict(list)
    for sample in samples:
        main = (sample["step"], sample["turn"], sample["responses"][-1])
        results[main].append(sample["parts"]["metric/pass"] == 1)
    blamed = [r for main, r in results.items() if any(r) and "except" not in main[-1]]
    return sum(r.count(False) for r in blamed) > max(SELDOM * len(samples), 3)


SIGNS = (  # check, metrics that it reads (without them it cannot tell), what to try
    (
        trivial_cooperation,
        ["completions/1/mean_length", *(f"metric/{name}" for name in ADDED)],
        "look at samples.jsonl; the strict reward (code) pays for helpers that the tests need, and "
        "nothing for a helper that fits any problem; more samples (--num-generations) and --joint "
        "cross show an agent what its partner needs",
    ),
    (
        no_cooperative_structure,
        ["metric/pass", "metric/coop", "metric/load_bearing", "reward/cooperation"],
        "the problems may be too small to divide: choose larger ones (coophumaneval rather than "
        "humaneval), or see with --num-agents 1 whether one agent does as well",
    ),
    (
        cascading_errors,
        ["metric/pass"],
        "samples.jsonl has main functions that pass with another helper; train the helper longer; "
        "--joint cross scores a main with every helper and says which was at fault. A main that "
        "passes by itself if the helper fails (a fallback) hides the errors",
    ),
)
