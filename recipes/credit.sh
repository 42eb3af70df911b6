#!/usr/bin/env bash
# Train each estimator of credit on the embedded team at equal samples: docs/results/credit.md.
#
#     bash recipes/credit.sh             JOBS=2 before it: two runs at once
#
# The same command goes on where it was stopped, as recipes/results.sh does.
# STEPS=2 SEEDS=1 OUT=runs/try before it tries it. A row trains in a clone of the last commit with
# the row's diff. So changes that are not committed do not train.
#
# 1. Rows whose gradient has another scale choose their rate: .5, 1 or 2 times the default's, by the
#    team's return on dev problems after the last step, with seeds of their own.
# 2. All rows train with that rate, five seeds each, and are evaluated on dev every 10 steps.
# 3. Tables: return, pass, needs both, and the samples until `needs both` on dev first reaches .8.
#    Good teams end between .85 and .96 there, by the convention that they find.
set -e
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
[[ $PYTHON == /* ]] || PYTHON=$PWD/$PYTHON
mkdir -p "${OUT:=runs/credit}"
OUT=$(cd "$OUT" && pwd)
CLONES=$(mktemp -d "$OUT/code.XXXX") # kept: runs may go on after this script
RATES="0.003 0.0015 0.006"
PLAIN="--joint aligned --optimism 0"
OWN="--reward examples/own_pay.py"
SHORT=${STEPS:+--max-steps $STEPS --eval-limit 4}

copy() { # NAME, DIFF or -, FLAGS: makes the clone in which a row trains
  local folder=$CLONES/$2
  [[ -d $folder ]] && return
  git clone --quiet . "$folder"
  [[ $2 == - ]] || git -C "$folder" apply "examples/$2.diff"
}

scaled() { # rows that choose a rate: NAME, DIFF, FLAGS
  "$@" std - $PLAIN --advantage std
  "$@" maxrl ablations/maxrl $PLAIN --advantage maxrl
  "$@" counterfactual credit/counterfactual $PLAIN --advantage batch $OWN:difference
  "$@" shapley - $PLAIN $OWN:shapley
  "$@" mixed - $PLAIN $OWN:mixed
  "$@" pooled credit/pooled $PLAIN --advantage pooled $OWN:mixed
  "$@" central credit/critic $PLAIN --advantage central
  "$@" decentral credit/critic $PLAIN --advantage decentral
  "$@" three-shapley - $PLAIN --num-agents 3 $OWN:shapley
  "$@" three-central credit/critic $PLAIN --num-agents 3 --advantage central
  "$@" messages-central credit/critic @recipes/messages.args $PLAIN --advantage central
}

others() { # rows that keep the default's rate
  local early="--task examples/credit/early.py:Early"
  "$@" aligned - $PLAIN
  "$@" aligned-half - $PLAIN --lr 0.0015 # a rate that rows above may choose
  "$@" k4 - --joint 4 --optimism 0
  "$@" cross - --joint cross --optimism 0
  "$@" optimism - --joint cross --optimism 1
  "$@" rloo - $PLAIN --advantage rloo
  "$@" difference - $PLAIN $OWN:difference
  "$@" token credit/token_credit $PLAIN
  for size in 2 4 16; do
    "$@" group-$size - $PLAIN --num-generations $size --batch-size $((96 / size))
  done
  # Two turns, so half the problems. A line that ends early samples less.
  "$@" early-mean - $PLAIN $early --branching chain --batch-size 6
  "$@" early-turn credit/turn_index $PLAIN $early --branching chain --batch-size 6 --advantage turn
  "$@" three-aligned - $PLAIN --num-agents 3
  "$@" three-k4 - --joint 4 --optimism 0 --num-agents 3
  "$@" three-difference - $PLAIN --num-agents 3 $OWN:difference
  "$@" messages-tree - @recipes/messages.args $PLAIN
  "$@" messages-cross - @recipes/messages.args --optimism 0
  "$@" messages-chain - @recipes/messages.args $PLAIN --branching chain --num-generations 10
  # One agent answers at a turn, so cross would be the same.
  "$@" pipeline - $PLAIN --task examples/workflows.py:Sequential --branching chain
}

trial() { # NAME, DIFF, FLAGS: prints the runs that try each rate, two seeds each
  local name=$1 folder=$CLONES/$2 last=130
  [[ $* == *messages.args* ]] && last=100
  shift 2
  for rate in $RATES; do
    for seed in 100 101; do
      echo "'$folder' $* --lr $rate --seed $seed --eval-every ${STEPS:-$last} $SHORT" \
        "--run '$OUT/rate/$name-$rate-$seed'" # no blank at the end: xargs would add the next line
    done
  done
}

row() { # NAME, DIFF, FLAGS: prints a run for each seed
  local name=$1 folder=$CLONES/$2
  shift 2
  for seed in $(seq 0 $((${SEEDS:-5} - 1))); do
    echo "'$folder' $* --seed $seed --eval-every ${STEPS:-10} $SHORT --run '$OUT/$name-$seed'"
  done
}

rated() { # as row, with the rate whose last team's return on dev problems is the largest
  local rate
  rate=$("$PYTHON" - "$OUT/rate/$1" $RATES << 'END'
import json, sys
stem, *rates = sys.argv[1:]
def last(rate):
    total = 0
    for seed in (100, 101):
        rows = map(json.loads, open(f"{stem}-{rate}-{seed}/metrics.jsonl"))
        *_, row = (row for row in rows if "dev/return" in row)
        total += row.get("dev/metric/joint", row["dev/return"])
    return total
print(max(rates, key=last))
END
  )
  echo "$1: rate $rate" >&2
  row "$@" --lr "$rate"
}

train() { # lines of a folder and flags. At the end it names those that failed
  rm -f "$OUT/failed"
  xargs -r -P "${JOBS:-1}" -L 1 bash -c \
    'cd "$2" && "$0" train.py "${@:3}" || echo "failed: $2 ${*:3}" >> "$1/failed"' "$PYTHON" "$OUT"
  [[ ! -e $OUT/failed ]] || { cat "$OUT/failed" >&2; exit 1; }
}

table() { # means over the seeds, held out; needs both of each seed; and its samples to .8
  "$PYTHON" - "$OUT/rows" << 'END'
import json, shlex, statistics, sys

rows = {}  # runs by the row's name
for line in open(sys.argv[1]):
    words = shlex.split(line)
    run = words[words.index("--run") + 1]
    rows.setdefault(run.rpartition("/")[2].rpartition("-")[0], []).append(run)

def samples(run):
    """Thousands of responses until needs both on dev problems first reaches .8."""
    responses = 0
    for row in map(json.loads, open(f"{run}/metrics.jsonl")):
        responses += row["responses"]
        if row.get("dev/metric/coop", 0) >= 0.8:
            return f"{responses / 1000:.0f}"
    return "never"

records = [json.load(open(f"{run}/args.json")) for runs in rows.values() for run in runs]
commits = {code.partition("+")[0] for record in records for code in record["code"]}
print("trained by the code of", *sorted(commits))  # several if the script went on after a commit
print(f"{'':>18} return  pass  both  needs both by seed; thousands of samples until .8 on dev")
for name, runs in rows.items():
    after = [json.load(open(f"{run}/summary.json"))["after"] for run in runs]
    returns = [row.get("metric/joint", row["return"]) for row in after]  # of the team
    columns = [f"{statistics.fmean(returns):6.3f}"]
    if "metric/coop" in after[0]:  # the task is coop
        both = [row["metric/coop"] for row in after]
        columns.append(f"{statistics.fmean(row['metric/pass'] for row in after):6.3f}")
        columns.append(f"{statistics.fmean(both):6.3f} ")
        columns += [f"{value:.2f}" for value in both] + [";"] + [*map(samples, runs)]
    print(f"{name:>18}", *columns)
END
}

scaled copy
others copy
scaled trial | train
scaled rated > "$OUT/rows"
others row >> "$OUT/rows"
train < "$OUT/rows"
table
