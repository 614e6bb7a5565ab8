#!/usr/bin/env bash
# Installs what the client runs need: kcat, a Python environment with librdkafka, Kafka's jars.
# Idempotent: a second call does nothing and takes well under a second.
# Everything that is not a system package lives in ${CORELOG_CACHE:-$HOME/.cache/corelog}.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CORELOG_CACHE:-$HOME/.cache/corelog}
venv=$cache/conformance-venv

fail() { echo "setup.sh: $*" >&2; exit 2; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

system_packages() {
  local missing=()
  command -v kcat >/dev/null || missing+=(kcat)
  command -v javac >/dev/null || missing+=(openjdk-17-jdk-headless)
  command -v go >/dev/null || missing+=(golang-go)
  command -v npm >/dev/null || missing+=(nodejs npm)
  command -v mvn >/dev/null || missing+=(maven)
  # librdkafka comes as source with the Rust client.
  command -v make >/dev/null || missing+=(make)
  command -v c++ >/dev/null || missing+=(g++)
  # For a file system of its own (disk_full_run.py).
  command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs)
  command -v mount >/dev/null || missing+=(mount)
  command -v taskset >/dev/null || missing+=(util-linux)
  command -v python3 >/dev/null || missing+=(python3)
  # Debian splits ensurepip off, and `python3 -m venv` needs it.
  command -v python3 >/dev/null && python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || fail "install these yourself: ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

python_environment() {
  if [ -x "$venv/bin/python" ] && cmp -s "$here/requirements.txt" "$venv/requirements.txt"; then return; fi
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "Python 3.10 or newer is needed"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check --only-binary :all: -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$venv/requirements.txt"
}

mkdir -p "$cache"
system_packages
python_environment
"$here/kafka/kafka.sh" fetch >/dev/null
"$here/matrix/setup.sh"
