#!/usr/bin/env bash
# Installs the clients of the matrix at the versions that the files beside this one pin.
# Idempotent: each part has a stamp, the files that it was made from; a second call takes no time.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${CORELOG_CACHE:-$HOME/.cache/corelog}

# $1: directory below the cache; $2: function that fills it; rest: files that decide what is in it.
part() {
  local directory=$cache/$1 make=$2 stamp
  shift 2
  stamp=$(cat "$@" | sha256sum)
  [ "$(cat "$directory/stamp" 2>/dev/null)" != "$stamp" ] || return 0
  echo "matrix/setup.sh: $directory" >&2
  rm -rf "$directory"
  mkdir -p "$directory"
  "$make" "$directory"
  echo "$stamp" >"$directory/stamp"
}

environment() { # $1: directory; $2: requirements
  python3 -m venv "$1"
  "$1/bin/pip" install -q --disable-pip-version-check --only-binary :all: -r "$2"
}
python_clients() { environment "$1" "$here/python/requirements.txt"; }
python_old() { environment "$1" "$here/python/requirements-old.txt"; }

node_client() {
  cp "$here/node/package.json" "$here/node/package-lock.json" "$1"
  npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
}

java_old() { mvn -q -B -f "$here/java/pom.xml" dependency:copy-dependencies -DoutputDirectory="$1/jars" >&2; }
java_client() { javac -d "$1" -cp "$cache/kafka/jars/*" "$here/java/Client.java"; }

go_clients() {
  # go.mod wants a newer Go than distributions have. From 1.21 on Go fetches that itself; before, it has no such variable.
  [ -n "$(go env GOTOOLCHAIN)" ] || { echo "matrix/setup.sh: $(go version): install Go 1.21 or newer" >&2; exit 2; }
  (cd "$here/go" && GOTOOLCHAIN=auto go build -o "$1/matrix" .)
}

rust_clients() { "$here/rust/setup.sh" "$1" "$cache/rust-target"; }

# The Rust clients are compiled beside the others, which mostly wait for the network. In a process group of their own: if
# another part fails, the compilers end too, and are gone before the next call removes what they write to.
set -m
part matrix-rust rust_clients "$here"/rust/*.* "$here"/rust/src/* &
rust=$!
set +m
trap '{ kill -- "-$rust" && wait "$rust"; } 2>/dev/null || true' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
part matrix-python python_clients "$here/python/requirements.txt"
part matrix-python-old python_old "$here/python/requirements-old.txt"
part matrix-node node_client "$here/node/package.json" "$here/node/package-lock.json"
part matrix-java-old java_old "$here/java/pom.xml"
# Compiled against the jars that kafka.sh has fetched.
part matrix-java java_client "$here/java/Client.java" "$here/../kafka/pom.xml"
part matrix-go go_clients "$here"/go/*
status=0
wait "$rust" || status=$?
trap - EXIT # The number may be another's by now.
exit "$status"
