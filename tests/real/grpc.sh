#!/usr/bin/env bash
#
# Installs, in REAL_DIR, what the services of tests/grpc need: grpcio for Python and @grpc/grpc-js for Node, both with server
# reflection and OpenTelemetry, from PyPI and npm. Nothing is started: each test starts its own services.
#
#     eval "$(tests/real/grpc.sh)"
#     cargo test -- real_grpc
#
# Standard output carries only `export BENCH_TEST_…=…`, on failure `false`.
#
# Settings (environment): REAL_DIR (default .real in the repository), REAL_PYTHON

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

open_dir
unset PYTHONPATH PYTHONHOME NODE_OPTIONS NODE_PATH
code=$repo/tests/grpc
venv=$REAL_DIR/grpc-venv
node=$REAL_DIR/grpc-node
missing=()
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
if ((${#missing[@]})); then install "${missing[@]}"; fi
install_pins "$venv" "$code/requirements.txt"
if ! cmp -s "$code/package-lock.json" "$node/installed.json"; then
  say "installing @grpc/grpc-js for node $(node --version) in $node"
  rm -rf -- "$node"
  mkdir "$node"
  cp "$code"/package{,-lock}.json "$node"
  # No package's code runs.
  (cd "$node" && timeout 600 npm ci --ignore-scripts --no-audit --no-fund --omit=dev) \
    >"$log/grpc-npm.log" 2>&1 </dev/null 9>&- || { tail -n 10 "$log/grpc-npm.log" >&2; die 'npm failed'; }
  cp "$code/package-lock.json" "$node/installed.json"
fi
printf 'export BENCH_TEST_GRPC_PYTHON=%q\n' "$venv/bin/python"
printf 'export BENCH_TEST_GRPC_NODE=%q\n' "$node/node_modules"
