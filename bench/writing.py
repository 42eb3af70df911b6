"""Do the writing rewards know people's texts from degenerate ones? And the fit of their constants.

    python -m bench.writing --data scitldr.jsonl.gz --model SmolLM2-135M-Instruct.Q4_1.gguf
                            [--bits 32] [--sources 40] [--seed 0] [--fit]

--data: rows with `title`, `abstract` and `summary` (the pair is title and summary), or as SciTLDR
publishes them, `source` and `target`, lists of sentences and of summaries by several people (the
pair is the shortest of them, and the next three).

For every kind of degenerate pair: its mean, how often people's pair of the same source earns more,
and how often any of people's pairs earns more than any of the kind (AUC). --fit tells the same for
other constants: each cell has the worst kind's wins and the share of people's pairs that earn under
a tenth of the maximum.
"""

import argparse
import itertools
import random
import re
import statistics
import warnings

import train
from evaluation.scoring import judge_of
from programs.rows import file_rows
from rewards import REWARDS, Questions
from training.plugins import resolve
from writing import rewards as writing

CONNECTORS = (
    "Furthermore, moreover, in addition, however, therefore, consequently, for example, as a "
    "result, nevertheless, on the other hand, in conclusion, "
)
TEMPLATE = (
    "This paper proposes a new method and shows that it works well.",
    "The authors introduce a novel approach to an important problem. They evaluate it in several "
    "experiments and compare it with existing methods. The results improve over strong baselines.",
)
CONTENT = re.compile(r"[^\W\d_][\w-]{5,}")  # words of six letters or more: nearly all content


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if part]


def shuffled(text: str, draw: random.Random) -> str:
    return " ".join(draw.sample(text.split(), len(text.split())))


def exchanged(text: str, other: str, draw: random.Random) -> str:
    """The text with its content words taken from another one: only the grammar is left."""
    pool = CONTENT.findall(other)
    return CONTENT.sub(lambda _: draw.choice(pool), text)


def frame(source: str) -> tuple[str, str]:
    """Sentences that fit any source, with the source's words pasted in, in their order."""
    w = list(itertools.islice(itertools.cycle(CONTENT.findall(source)), 13))
    return (
        f"The paper is about {w[0]}, {w[1]} and {w[2]}.",
        f"First, the paper discusses {w[3]} and {w[4]}. Furthermore, it considers {w[5]}, {w[6]} "
        f"and {w[7]}. In addition, {w[8]} and {w[9]} are related to {w[10]}. Finally, it concludes "
        f"with {w[11]} and {w[12]}.",
    )


def pairs(people: tuple, other: tuple, source: str, draw: random.Random) -> dict[str, tuple]:
    """Pairs of texts for one source, by kind. people, other: people's texts of this source and of
    another one."""
    (a, b), (x, y) = people, other
    parts = sentences(source)
    words = CONTENT.findall(source)
    return {
        "people": people,
        "of another source": other,
        "first off topic": (x, b),
        "second off topic": (a, y),
        "words shuffled": (shuffled(a, draw), shuffled(b, draw)),
        "copied from the source": (parts[0], " ".join(parts[1:4])),
        "one sentence repeated": (a, " ".join([sentences(b)[0]] * 3)),
        "template": TEMPLATE,
        "connectors before": (a, CONNECTORS + b),
        "content words exchanged": (exchanged(a, x + " " + y, draw), exchanged(b, x + y, draw)),
        "frame with pasted words": frame(source),
        "list of pasted words": (" ".join(words[:8]) + ".", " ".join(words[8:30]) + "."),
        "second swapped for first": (b, a),
    }


def texts_of(row: dict) -> tuple[str, tuple[str, str]]:
    """A row's source and people's pair."""
    if "target" not in row:
        return row["abstract"], (row["title"].rstrip(".") + ".", row["summary"])
    ranked = sorted(row["target"], key=lambda text: len(text.split()))
    return " ".join(row["source"]), (ranked[0], " ".join(ranked[1:4]))


def examples(path: str, count: int, seed: int) -> list[tuple[dict, dict[str, tuple]]]:
    draw = random.Random(seed)
    rows = [texts_of(row) for _, row in file_rows(path)]
    rows = [row for row in rows if len(row[1][1].split()) > len(row[1][0].split())]
    chosen = draw.sample(rows, min(count, len(rows)))
    others = chosen[1:] + chosen[:1]
    return [
        ({"prompt": source}, pairs(people, other, source, draw))
        for (source, people), (_, other) in zip(chosen, others, strict=True)
    ]


def answers_for(judge, found: list) -> dict:
    lm = Questions({})
    for item, kinds in found:
        for texts in kinds.values():
            writing.tldr(item, list(texts), lm)
    asked = list(dict.fromkeys(lm.new))
    return dict(zip(asked, judge(asked), strict=True))


def scores(reward, found: list, *lm) -> dict[str, list[float]]:
    """Reward of every source's pair, by kind."""
    table: dict[str, list[float]] = {}
    for item, kinds in found:
        for kind, texts in kinds.items():
            parts = reward(item, list(texts), *lm)
            paid = sum(value for name, value in parts.items() if not name.startswith("metric/"))
            table.setdefault(kind, []).append(paid)
    return table


def better(people: list[float], others: list[float]) -> tuple[float, float]:
    """How often people's pair earns more: of the same source, and of any (AUC); ties are half."""

    def won(pairs: list[tuple[float, float]]) -> float:
        return statistics.fmean((a > b) + 0.5 * (a == b) for a, b in pairs)

    return won(list(zip(people, others, strict=True))), won(list(itertools.product(people, others)))


def show(names: list[str], tables: list[dict[str, list[float]]], maximum: float) -> str:
    head = "".join(f"{name:>24}" for name in names)
    lines = [f"{'mean, wins, AUC':<26}{head}"]
    for kind in tables[0]:
        cells = []
        for table in tables:
            wins = " {:.2f} {:.2f}".format(*better(table["people"], table[kind]))
            cells.append(f"{statistics.fmean(table[kind]):.2f}" + wins * (kind != "people"))
        lines.append(f"{kind:<26}" + "".join(f"{cell:>24}" for cell in cells))
    low = [statistics.fmean(x < maximum / 10 for x in table["people"]) for table in tables]
    cells = "".join(f"{share:>24.2f}" for share in low)
    return "\n".join([*lines, f"{'people under a tenth':<26}{cells}"])


def fit(found: list, lm) -> str:
    chosen = writing.FLUENT, writing.GROUNDED
    lines = ["worst kind's wins / people under a tenth; columns: grounded (middle, width)"]
    columns = [(0.10, 0.05), (0.16, 0.05), (0.22, 0.05), (0.16, 0.1)]
    lines.append(f"{'fluent':<12}" + "".join(f"{column!s:>14}" for column in columns))
    for fluent in [(-8.0, 0.5), (-7.0, 0.5), (-6.0, 0.5), (-7.0, 1.0)]:
        cells = []
        for grounded in columns:
            writing.FLUENT, writing.GROUNDED = fluent, grounded
            table = scores(writing.tldr, found, lm)
            people = table.pop("people")
            worst = min(better(people, others)[0] for others in table.values())
            cells.append(f"{worst:.2f} / {statistics.fmean(x < 0.3 for x in people):.2f}")
        lines.append(f"{fluent!s:<12}" + "".join(f"{cell:>14}" for cell in cells))
    writing.FLUENT, writing.GROUNDED = chosen
    return "\n".join(lines)


def main():
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    flags.add_argument("--data", required=True)
    flags.add_argument("--model", required=True)
    flags.add_argument("--bits", type=int, choices=(4, 8, 16, 32), help="(those that are fastest)")
    flags.add_argument("--sources", type=int, default=40)
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument("--fit", action="store_true")
    args = flags.parse_args()
    warnings.filterwarnings("ignore")
    train.quiet()
    found = examples(args.data, args.sources, args.seed)
    argv = ["--task", "tldr", "--model", args.model, "--chat-template"]
    flags = train.parse(argv + (["--bits", str(args.bits)] if args.bits else []))
    answers = answers_for(judge_of(flags), found)

    def lm(prompt: str, text: str):
        return answers[prompt, text]

    names = ["tldr", "tldr_paper", "tldr_released"]
    tables = [scores(writing.tldr, found, lm)]
    tables += [scores(resolve(name, REWARDS, "reward"), found) for name in names[1:]]
    print(f"\n{len(found)} sources, {args.model}, {flags.bits} bits; mean of 3")
    print(show(names, tables, writing.tldr.maximum))
    if args.fit:
        print("\n" + fit(found, lm))


if __name__ == "__main__":
    main()
