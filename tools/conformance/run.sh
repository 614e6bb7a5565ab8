#!/usr/bin/env bash
# The client runs against a real process: run.sh [quick|full] [options of run.py]
#
#   quick   minutes: what CI runs. full: every record of the long runs, tens of minutes.
#   CORELOG_BIN names the binary (default: the release build, else the debug one).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mode=${1:-quick}
[ $# -eq 0 ] || shift
"$here/setup.sh"
python=${CORELOG_CACHE:-$HOME/.cache/corelog}/conformance-venv/bin/python
broker=()
[ -z "${CORELOG_BIN:-}" ] || broker=(--corelog "$CORELOG_BIN")
# A node takes every CORELOG_ variable for an option and refuses what is none.
unset CORELOG_BIN

case $mode in
  quick) clients=() files=(--records 100000) kills=(--records 100000 --kills 5) disk=(--mib 512) churn=(--kills 10)
    # A machine that builds and tests has other work: there only a client that stands still is too slow.
    hostile=(--connections 2000 --seconds 4 --p99-floor-ms 1000)
    # Fewer files than partitions, as in the full run.
    many=(--partitions 1000 --open-files 512 --p99-floor-ms 1000 --seconds-floor 10) bound=1200 ;;
  full) clients=(--full) files=() kills=() disk=() churn=() hostile=() many=() bound=5400 ;;
  *) echo "run.sh: $mode: must be quick or full" >&2; exit 2 ;;
esac

# Ends a run that hangs; the harness ends its brokers when it exits. In the foreground it makes no process group of its own,
# so that a Ctrl-C, and the limit of whoever called this, reach the run as well.
# 77 is a run that this machine does not allow: no failure, but named at the end, since it has proved nothing either.
bounded() {
  local status=0
  timeout --foreground --kill-after=30 "$bound" "$python" "$@" || status=$?
  case $status in
    0) ;;
    77) left_out+=("$1") ;;
    *) failed=1 ;;
  esac
}
trap 'exit 130' INT

failed=0 left_out=()
cd "$here"
"$python" compatibility.py --check || failed=1
compare=../../benches/compare
"$python" -m unittest discover -b -s $compare/tests -t $compare || failed=1
bounded run.py "${broker[@]}" "${clients[@]}" "$@"
bounded compare_run.py "${broker[@]}"
bounded matrix_run.py "${broker[@]}"
bounded rskafka_run.py "${broker[@]}"
bounded dump_log_run.py "${broker[@]}" "${files[@]}"
bounded kill_run.py "${broker[@]}" "${kills[@]}"
bounded churn_run.py "${broker[@]}" "${churn[@]}"
bounded disk_full_run.py "${broker[@]}" "${disk[@]}"
bounded hostile_run.py "${broker[@]}" "${hostile[@]}"
bounded many_partitions_run.py "${broker[@]}" "${many[@]}"
bounded $compare/run.py --smoke "${broker[@]}"
[ ${#left_out[@]} -eq 0 ] || echo "left out, since this machine does not allow them: ${left_out[*]}"
exit "$failed"
