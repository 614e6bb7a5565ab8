#!/usr/bin/env bash
# The client runs against a real process: run.sh [quick|full] [options of run.py]
#
#   quick   minutes: what CI runs. full: every record of the issue's runs, tens of minutes.
#   CORELOG_BIN names the binary (default: the newest build of this workspace).
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
  quick) clients=() files=(--records 100000) kills=(--records 100000 --kills 5) disk=(--mib 512) churn=(--kills 10) bound=1200 ;;
  full) clients=(--full) files=() kills=() disk=() churn=() bound=5400 ;;
  *) echo "run.sh: $mode: must be quick or full" >&2; exit 2 ;;
esac

# `timeout` ends a run that hangs; the harness ends its brokers when it exits.
failed=0
cd "$here"
"$python" compatibility.py --check || failed=1
timeout "$bound" "$python" run.py "${broker[@]}" "${clients[@]}" "$@" || failed=1
timeout "$bound" "$python" compare_run.py "${broker[@]}" || failed=1
timeout "$bound" "$python" matrix_run.py "${broker[@]}" || failed=1
timeout "$bound" "$python" rskafka_run.py "${broker[@]}" || failed=1
timeout "$bound" "$python" dump_log_run.py "${broker[@]}" "${files[@]}" || failed=1
timeout "$bound" "$python" kill_run.py "${broker[@]}" "${kills[@]}" || failed=1
timeout "$bound" "$python" churn_run.py "${broker[@]}" "${churn[@]}" || failed=1
timeout "$bound" "$python" disk_full_run.py "${broker[@]}" "${disk[@]}" || failed=1
exit "$failed"
