#!/usr/bin/env bash
# Make the embedded team's figures of docs/results/ again: 69 runs, 2 to 4 hours of two cores.
#
#     bash recipes/results.sh            JOBS=2 before it: two runs at once
#
# The same command goes on where it was stopped: train.py resumes a run that is not finished, and
# passes over one that is. OMP_NUM_THREADS=1 JOBS=14 suits 16 cores. STEPS=2 SEEDS=1 OUT=runs/try
# tries it: two steps of the first seed of every row, on four held-out problems.
set -e
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
OUT=${OUT:-runs/results}

row() { # NAME, NUMBER OF SEEDS, FLAGS: prints a line of flags for each seed
  local name=$1 seeds=${SEEDS:-$2}
  shift 2
  for seed in $(seq 0 $((seeds - 1))); do
    echo "$* --seed $seed ${STEPS:+--max-steps $STEPS --eval-limit 4} --run '$OUT/$name-$seed'"
  done
}

rows() {
  row default 8
  row single 8 --num-agents 1 --max-new-tokens 192
  row mean 8 --optimism 0
  row share 5 --share
  row pipeline 5 --task examples/workflows.py:Sequential --turns 2 --branching chain
  row three 5 --num-agents 3 --max-steps 140
  row four 3 --num-agents 4 --max-steps 180 --joint 16 --lr 0.0015
  row build 5 --task examples.building.tasks.Build
  row build-single 5 --task examples.building.tasks.Build --num-agents 1
  row messages 5 @recipes/messages.args
  row told 3 @recipes/messages.args --task examples/messages.py:Told
  row deaf 3 @recipes/messages.args --task examples/messages.py:Deaf
  row two-turns 3 --turns 2 --branching chain --batch-size 15 --max-steps 30
  row two-tree 3 --turns 2 --branching tree --num-generations 4 --max-steps 30
}

compare() { # TABLE, ROWS: the first row is the one that the others are compared with
  local table=$1 runs=()
  shift
  for name in "$@"; do
    runs+=("$OUT/$name"-[0-9]*)
  done
  echo "== $table"
  "$PYTHON" eval.py compare "${runs[@]}" --csv "$OUT/$table.csv"
}

mkdir -p "$OUT"
rm -f "$OUT/failed"
rows | xargs -P "${JOBS:-1}" -L 1 bash -c \
  '"$0" train.py "${@:2}" || echo "failed: ${*:2}" >> "$1/failed"' "$PYTHON" "$OUT"
[[ ! -e $OUT/failed ]] || { cat "$OUT/failed" >&2; exit 1; }
compare coop default single mean share pipeline
compare agents three four
compare build build build-single
compare messages messages told deaf
compare turns two-turns two-tree

"$PYTHON" examples/crossplay.py "$OUT"/default-[0-4]
"$PYTHON" eval.py --run "$OUT/default-0"

figure() { # FILE, TWO ROWS, METRICS: their curves, as docs/ has them
  "$PYTHON" eval.py compare "$OUT/$2"-[0-9]* "$OUT/$3"-[0-9]* --metric "${@:4}" --out "$OUT/$1" > /dev/null
}

figure curve.png default single return
figure optimism.png default mean return scheme/unused
