#!/usr/bin/env bash
# Parity of `regatta mlperf check` with the official checker, on results that MLCommons published.
#
#   MLPERF_INFERENCE=…/inference tests/bench/published/run.sh CLONE ROUND [TABLE.json]
#
# CLONE             a clone of mlcommons/inference_results_<round>, or another folder with closed/ and open/ in it
# ROUND             v4.1, v5.0, v5.1, v6.0 or v6.1
# TABLE.json        where to write the counts; without it they are printed only
# MLPERF_INFERENCE  a clone of mlcommons/inference; the checker is taken from the round's revision, below
# MLPERF_PYTHON     a Python with numpy, pandas and pyyaml [default: python3]
# REGATTA           the program to examine [default: target/debug/regatta, else the one on PATH]
#
# Nothing is written into either clone. A benchmark of which a log is not in the clone (an LFS pointer, a file left out of
# a mirror) is taken out of the linked copy that both checkers read: it says nothing about either.
set -euo pipefail

[ $# -ge 2 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 2; }
clone=$(realpath "$1")
round=$2
table=${3:-}
here=$(dirname "$(realpath "$0")")
root=$(cd "$here/../../.." && pwd)
python=${MLPERF_PYTHON:-python3}
: "${MLPERF_INFERENCE:?names a clone of mlcommons/inference}"
regatta=${REGATTA:-$root/target/debug/regatta}
[ -x "$regatta" ] || regatta=regatta

# The checker that judged the round: the last revision before its results were published.
case $round in
    v4.1) revision=v4.1 ;;
    v5.0) revision=v5.0.1 ;;
    v5.1) revision=v5.1.1 ;;
    v6.0) revision=175ea7ba24a826946458f72ec4a2221215f52802 ;;
    v6.1) revision=b66003e1 ;;
    *) echo "no revision of the checker is known for $round" >&2; exit 2 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/checker"
git -C "$MLPERF_INFERENCE" ls-tree -r --name-only "$revision" tools/submission |
    grep '\.\(py\|json\|yaml\|yml\)$' | grep -v directory_structure_samples |
    while read -r file; do
        mkdir -p "$work/checker/$(dirname "$file")"
        git -C "$MLPERF_INFERENCE" cat-file blob "$revision:$file" >"$work/checker/$file"
    done
checker=$work/checker/tools/submission/submission_checker/main.py
[ -f "$checker" ] || checker=$work/checker/tools/submission/submission_checker.py

"$python" "$here/parity.py" link "$clone" "$work/tree"
(cd "$work/tree" && "$python" "$checker" --input . --version "$round" --csv "$work/official.csv") \
    >"$work/official.log" 2>&1 || true
"$regatta" mlperf check "$work/tree" --round "$round" --json >"$work/ours.json" || true
"$python" "$here/parity.py" table "$round" "$work" $table
