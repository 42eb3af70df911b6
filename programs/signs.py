"""Detect the failures of coding teams that arXiv 2508.04652 describes.

training/doctor.py has the signs of every run. `run` is its Run.
"""

from collections import defaultdict

OFTEN = 0.5  # fraction of joint responses
SELDOM = 0.15  # fraction of joint responses
SOLVED = 0.3  # fraction of joint responses that pass, for a task that the team can do
PASSED = {"metric/pass": "share of joint responses that pass"}
ADDED = PASSED | {  # and what the helpers contribute
    "metric/aux_called": "that call a helper",
    "metric/wrapper": "that only wrap a helper",
    "metric/load_bearing": "whose helper the tests need",
}
SAMPLES = 20  # late joint responses needed to judge cascading errors


def trivial_cooperation(run) -> bool:
    """Return whether helpers add nothing, or do all the work, in most passing joint responses."""
    passed, called, wrapper, needed = map(run.end, ADDED)
    if passed < SOLVED:
        return False
    if called < SELDOM or wrapper > OFTEN * passed:
        return True
    measured = any(run.series["metric/load_bearing"])  # code_paper does not measure it
    return measured and needed < OFTEN * passed


def no_cooperative_structure(run) -> bool | None:
    """Return whether the tests passed all along, and divided work hardly ever passed them."""
    passed = run.mean("metric/pass")
    divided = run.mean("metric/coop")
    if run.mean("reward/cooperation") > 0 and not run.mean("metric/load_bearing"):
        return None  # code_paper does not measure whether work was divided
    return passed >= SOLVED and divided < SELDOM * passed


def cascading_errors(run) -> bool | None:
    """Return whether main functions without a fallback fail that pass with another helper."""
    samples = []
    for sample in run.late:
        if "metric/pass" in sample["parts"] and len(sample["responses"]) > 1:
            samples.append(sample)
    if len(samples) < SAMPLES:
        return None
    results = defaultdict(list)  # of each main function: whether it passes
    for sample in samples:
        main = (sample["step"], sample["turn"], sample["responses"][-1])
        results[main].append(sample["parts"]["metric/pass"] == 1)
    failures = 0
    for (_step, _turn, code), passes in results.items():
        if any(passes) and "except" not in code:
            failures += passes.count(False)
    return failures > SELDOM * len(samples)


SIGNS = (  # check, metrics that it needs with their words, what to try (training/doctor.py)
    (
        trivial_cooperation,
        {"completions/1/mean_length": "tokens of a response", **ADDED},
        "more steps, since helpers often become useful later; with two agents train the helper "
        "first, --freeze 1, and go on with both (docs/metrics.md); --reward code, which pays for "
        "helpers that the tests need; more --num-generations; --joint cross",
    ),
    (
        no_cooperative_structure,
        PASSED
        | {
            "metric/coop": "that pass and need both parts",
            "metric/load_bearing": "whose helper the tests need",
            "reward/cooperation": "reward for cooperation",
        },
        "the problems may be too small to divide: choose larger ones (coophumaneval rather than "
        "humaneval); see with --num-agents 1 whether one agent does as well",
    ),
    (
        cascading_errors,
        PASSED,
        "samples.jsonl has main functions that pass with another helper; train the helper longer; "
        "--joint cross scores a main with every helper and says which was at fault; a main that "
        "passes by itself if the helper fails (a fallback) hides the errors",
    ),
)
