#!/usr/bin/env bash
# An S3-compatible server for the tests: its bucket is a folder. Installed into target/tools, once; some minutes.
# Prints where it is.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$PWD/target/tools
if [ ! -x "$tools/bin/s3s-fs" ]; then
  # Elsewhere than in the project, whose own build would be waited for, and be thrown away by other settings.
  CARGO_TARGET_DIR=$(mktemp -d)
  export CARGO_TARGET_DIR
  trap 'rm -rf "$CARGO_TARGET_DIR"' EXIT
  cargo install --quiet --locked s3s-fs --version 0.14.1 --features binary --root "$tools" >&2
fi
printf '%s\n' "$tools/bin/s3s-fs"
