#!/usr/bin/env bash
# Runs the run time's tests under the address sanitizer: ci/sanitize.sh. The kernels themselves are safe Rust; what this
# watches is the vector and casting libraries beneath them and the threads' shared buffers. Needs a nightly toolchain.
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
# A target by name, so that build scripts are built without the sanitizer.
RUSTFLAGS="-Zsanitizer=address" cargo +nightly test -q --release -p sinew-runtime --features rayon --lib --test kernels \
    --target "$host" --target-dir target/sanitized
