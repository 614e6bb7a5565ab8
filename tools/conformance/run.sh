#!/usr/bin/env bash
# The client runs against a real process: run.sh [quick|full] [options of run.py]
#
#   quick   minutes: what CI runs. full: every record of the issue's runs, tens of minutes.
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
    # Fewer files than partitions, as in the full run.
    # A machine that builds and tests has other work: there only a client that stands still is too slow.
    hostile=(--connections 2000 --seconds 4 --p99-floor-ms 1000)
    many=(--partitions 1000 --open-files 512 --p99-floor-ms 1000) bound=1200 ;;
  full) clients=(--full) files=() kills=() disk=() churn=() hostile=() many=() bound=5400 ;;
  *) echo "run.sh: $mode: must be quick or full" >&2; exit 2 ;;
esac

# Ends a run that hangs; the harness ends its brokers when it exits. In the foreground it makes no process group of its own,
# so that a Ctrl-C, and the limit of whoever called this, reach the run as well.
bounded() { timeout --foreground --kill-after=30 "$bound" "$python" "$@" || failed=1; }
trap 'exit 130' INT

failed=0
cd "$here"
"$python" compatibility.py --check || failed=1
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
exit "$failed"
