#!/bin/bash
# How often `regatta compare` finds a difference where there is none, and one of +5 %, on the simulator in real time.
#
#   tests/bench/pairs/run.sh [PAIRS] [AT ONCE] [RATE]     default: 200 pairs, 36 at once, 100 requests a second (about 77 % busy)
#
# Each pair is three sides of five runs with the seeds of the pair: A and C on the same server, B on one that is 5 % slower.
# Takes 6 minutes on 16 quiet cores. Results go to target/pairs/RATE; REGATTA names the program, `regatta` on PATH otherwise.
set -u
pairs=${1:-200} at_once=${2:-36} rate=${3:-100}
here=$(cd "$(dirname "$0")" && pwd)
export REGATTA=${REGATTA:-$(command -v regatta)} QUEUE=$here/queue.yaml RESULTS=$PWD/target/pairs/$rate RATE=$rate
rm -rf "$RESULTS"

side() {
  local side=$1 pair=$2 slower=1 work found
  [ "$side" = b ] && slower=1.05
  work=$(mktemp -d) && cd "$work" || return
  "$REGATTA" run "$QUEUE" -q seed=$((pair * 1000)) slower=$slower rate="$RATE" >/dev/null 2>&1
  found=$(dirname "$(find .regatta -name result.json -not -path '*/repeats/*' | head -1)")
  (cd "$found" && find . -name result.json -exec install -D {} "$RESULTS/$pair-$side/{}" \;)
  cd / && rm -rf "$work"
}
export -f side

for pair in $(seq 1 "$pairs"); do printf '%s\n' "a $pair" "c $pair" "b $pair"; done |
  xargs -P "$at_once" -L 1 bash -c 'side "$@"' side
python3 "$here/judge.py" "$RESULTS"
