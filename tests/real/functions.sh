#!/usr/bin/env bash
#
# Installs, in REAL_DIR, speedscope from npm and, if it is missing, Chromium from Debian's or Ubuntu's packages: the
# reader of the profiles that osprofiler writes. Nothing is started.
#
#     eval "$(tests/real/functions.sh)"
#     cargo test -p osprofiler --all-features -- real_
#
# Standard output carries only `export BENCH_TEST_…=…`, on failure `false`.
#
# Settings (environment): REAL_DIR (default .real in the repository)

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

open_dir
version=1.25.0
node=$REAL_DIR/speedscope
missing=()
command -v npm >/dev/null || missing+=(npm)
command -v chromium >/dev/null || missing+=(chromium)
if ((${#missing[@]})); then install "${missing[@]}"; fi
page=$node/node_modules/speedscope/dist/release/index.html
if ! grep -qs "\"version\": \"$version\"" "$node/node_modules/speedscope/package.json"; then
  say "installing speedscope $version in $node"
  mkdir -p "$node"
  timeout 300 npm install --prefix "$node" --ignore-scripts --no-audit --no-fund "speedscope@$version" \
    >"$log/speedscope.log" 2>&1 </dev/null 9>&- || { tail -n 10 "$log/speedscope.log" >&2; die 'npm failed'; }
fi
[[ -f $page ]] || die "speedscope has no $page"
printf 'export BENCH_TEST_SPEEDSCOPE=%q\n' "$page"
