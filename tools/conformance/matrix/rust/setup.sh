#!/usr/bin/env bash
# Builds the Rust clients and rskafka's own tests: setup.sh DIRECTORY TARGET
#
# DIRECTORY gets bin/: the matrix's program, and a program for each file of tests that rskafka's package carries.
# TARGET is cargo's, kept when DIRECTORY is made anew: librdkafka takes a minute to build.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
directory=$1
export CARGO_TARGET_DIR=$2

cp -r "$here/Cargo.toml" "$here/Cargo.lock" "$here/src" "$directory"
cd "$directory"
source_of() { # $1: package
  cargo metadata --locked --format-version 1 | python3 -c '
import json, pathlib, sys
packages = json.load(sys.stdin)["packages"]
print(*(pathlib.Path(p["manifest_path"]).parent for p in packages if p["name"] == sys.argv[1]))' "$1"
}
cp -r "$(source_of rskafka)/tests" tests
cp "$here/java_helper.rs" tests
# They are written for an rdkafka whose deliveries were pairs: the rest of what they use is as it was.
sed -i 's/let (_partition, offset) =/let rdkafka::producer::future_producer::Delivery { offset, .. } =/' tests/rdkafka_helper.rs
# With the tests comes the program itself. What the compiler says goes to a file: the warnings are about somebody else's code.
cargo test --quiet --locked --no-run --test client --test consumer --test produce_consume --test producer \
  --message-format json >messages.json || failed=$?
mkdir bin
python3 - <<'PYTHON'
import json, shutil, sys

for line in open("messages.json"):
    said = json.loads(line)
    if said["reason"] == "compiler-message" and said["message"]["level"] == "error":
        print(said["message"]["rendered"], file=sys.stderr)
    elif said.get("executable"):
        prefix = "test-" if said["profile"]["test"] else ""
        shutil.copy(said["executable"], "bin/" + prefix + said["target"]["name"])
PYTHON
exit "${failed:-0}"
