#!/bin/bash
# How often `regatta compare` finds a difference where there is none, and one of +5 %: on the simulator in real time, or
# on a real tritonserver with a Python model.
#
#   tests/bench/pairs/run.sh queue [PAIRS] [AT ONCE] [NAME=VALUE…]     200 pairs, 12 at once: 13 minutes on 16 quiet cores
#   tests/bench/pairs/run.sh triton [PAIRS] [AT ONCE] tritonserver=/path/to/tritonserver [NAME=VALUE…]
#
# Each pair is one run of a manifest beside this: three sides of five repeats each that take turns, with the seeds of the
# pair. A and C are the same, B is 5 % slower. Results go to target/pairs; REGATTA names the program, `regatta` on PATH
# otherwise.
set -u
manifest=${1:-queue} pairs=${2:-200} at_once=${3:-12}
shift $(($# < 3 ? $# : 3))
here=$(cd "$(dirname "$0")" && pwd)
export REGATTA=${REGATTA:-$(command -v regatta)} MANIFEST=$here/$manifest.yaml RESULTS=$PWD/target/pairs/$manifest
export WORDS="$*"
[ "$manifest" = triton ] && WORDS="$WORDS models=$here/../../../manifests/triton-cpu/models"
rm -rf "$RESULTS"
mkdir -p "$RESULTS"

pair() {
  local pair=$1 work side
  work=$(mktemp -d) && cd "$work" || return
  "$REGATTA" run "$MANIFEST" -q seed=$((pair * 1000)) $WORDS >"$RESULTS/$pair.log" 2>&1 && rm "$RESULTS/$pair.log"
  for side in a b c; do
    (cd "latest/measure/$side" && find -L . -name result.json -exec install -D {} "$RESULTS/$pair-$side/{}" \;)
  done
  cd / && rm -rf "$work"
}
export -f pair

seq 1 "$pairs" | xargs -P "$at_once" -L 1 bash -c 'pair "$@"' pair
python3 "$here/judge.py" "$RESULTS"
