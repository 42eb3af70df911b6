"""Look for known signs of failure in a run's metrics, most of them those of arXiv 2508.04652.

The thresholds are rules of thumb: a sign is a reason to look, not a proof.
"""

from pandas import DataFrame

STEPS = 20  # the fewest steps that can be judged

# Name, condition, what to try. `first` and `last` hold the mean of each metric over the first and
# over the last fifth of the steps.
SIGNS = (
    (  # hardly any group has a response with an advantage
        "nothing to learn",
        lambda first, last: last["groups_with_gradient"] < 0.05 and last["return"] < 0.95,
        "a reward with steps between nothing and all; easier problems; more --num-generations; "
        "a larger --max-new-tokens, if responses are cut off",
    ),
    (  # an agent's responses shrank to two tokens or fewer, the end of text included
        "silent agent",
        lambda first, last: any((last <= 2) & (first > 2) & last.index.str.endswith("mean_length")),
        "a reward for what this agent adds; more --num-generations; --joint cross",
    ),
    (  # programs pass, and main does not call the helper, or only calls it
        "trivial cooperation",
        lambda first, last: (
            last["completions/1/mean_length"] > 0
            and last["metric/pass"] >= 0.3
            and not last["scheme/wrapper"] * 2 < last["metric/pass"] < last["metric/aux_called"] * 7
        ),
        "more steps; the helpers alone first (--freeze the last agent); --reward code; "
        "--joint cross",
    ),
    (  # problems are solved from the start, and cooperation hardly ever earns anything
        "atomic problems",
        lambda first, last: (
            last["completions/1/mean_length"] > 0
            and first["metric/pass"] >= 0.3
            and last["reward/cooperation"] * 7 < last["metric/pass"]
        ),
        "larger problems; --num-agents 1, which may do as well",
    ),
    (  # the second turn earns less than the first, where all episodes reach it
        "drop after feedback",
        lambda first, last: (
            last["mean_turns"] > 1.98
            and last["turn_0/reward"] > 0  # not where it is not scored
            and last["turn_1/reward"] < 0.9 * last["turn_0/reward"]
        ),
        "one turn first, and --init RUN; shorter feedback; a lower --lr",
    ),
    (
        "reward hacking (code)",
        lambda first, last: (
            rose_alone(last - first, "reward/cooperation", "reward/tests")
            and (last - first).get("metric/coop", 0) < 0.02  # not where they learned to cooperate
        ),
        "fewer steps; --reward code, whose bonus needs the tests; --kl-coef 0.02, with adapters",
    ),
    (
        "reward hacking (text)",
        lambda first, last: rose_alone(last - first, "reward/coherence", "reward/consistency"),
        "fewer steps; a reward that ties coherence to consistency; --kl-coef 0.02, with adapters "
        "and without --top-p and --top-k",
    ),
)


def rose_alone(rise, bonus: str, substance: str) -> bool:
    """Return whether a bonus rises, and what it is a bonus on does not."""
    return rise[bonus] > 0.1 and rise[substance] < 0.02


def report(rows: DataFrame) -> str:
    """Return what each sign says of each run. rows: of runs.read_runs."""
    texts = map(examine, rows["run"], rows["steps"])
    return "\n\n".join(texts)


def examine(run: str, steps: DataFrame) -> str:
    """Return what each sign says of a run's metrics."""
    if len(steps) < STEPS:
        return f"{run}: fewer than {STEPS} steps cannot be judged"
    fifth = len(steps) // 5
    ends = {"first": steps.head(fifth).mean(), "last": steps.tail(fifth).mean()}
    ends = DataFrame(ends).dropna()  # a metric that another commit's steps lack cannot tell
    lines = [run]
    for name, condition, advice in SIGNS:
        try:
            seen = condition(ends["first"], ends["last"])
            text = f"SEEN, try: {advice}" if seen else "not seen"
        except KeyError as metric:
            text = f"cannot tell, without {metric}"
        lines.append(f"{name:<24}{text}")
    return "\n".join(lines)
