#!/usr/bin/env bash
# An S3-compatible server for the tests: its bucket is a folder. Installed once, outside of the clone. Prints its path.
# The tests move little data, so it is built with little optimisation, in half of the time; `--optimised` replaces it by
# an optimised build, for the figures of `cargo bench --bench shared_store`.
set -euo pipefail
version=0.14.1
tools=${XDG_CACHE_HOME:-$HOME/.cache}/regatta-tests/s3s-fs-$version
profile=(--debug)
[ "${1:-}" != --optimised ] || profile=(--force)
if [ ! -x "$tools/bin/s3s-fs" ] || [ "${profile[0]}" = --force ]; then
  # Elsewhere than in the project, whose own build would be waited for, and be thrown away by other settings.
  CARGO_TARGET_DIR=$(mktemp -d)
  export CARGO_TARGET_DIR
  trap 'rm -rf "$CARGO_TARGET_DIR"' EXIT
  export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_OPT_LEVEL=1
  cargo install "${profile[@]}" --quiet --locked s3s-fs --version "$version" --features binary --root "$tools" >&2
fi
printf '%s\n' "$tools/bin/s3s-fs"
