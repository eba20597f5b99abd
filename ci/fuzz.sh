#!/usr/bin/env bash
# Runs every fuzz target for some seconds under libFuzzer: ci/fuzz.sh [SECONDS [TARGET…]]; 60 seconds and all targets unless said.
# Needs a nightly toolchain and `cargo install cargo-fuzz`. Exits with 1 if a target crashed, hung, or wanted more than 2 GB;
# what did it is then in fuzz/artifacts/TARGET/. What libFuzzer finds interesting is kept under fuzz/target/, not in the corpus.
set -uo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
shift || true
read -ra targets <<<"${*:-$(cargo +nightly fuzz list | tr '\n' ' ')}"
failed=()
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    found=target/found/$target
    mkdir -p "$found"
    cargo +nightly fuzz run "$target" "$found" "corpus/$target" -- \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 >"$found.log" 2>&1 ||
        failed+=("$target")
    grep -E '^(==|error|SUMMARY)|executed_units|peak_rss|panicked at|Test unit written' "$found.log"
done
if [ ${#failed[@]} != 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
echo "no target failed"
