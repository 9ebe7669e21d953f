#!/usr/bin/env bash
#
# Installs, in REAL_DIR, what the services of tests/grpc need: grpcio for Python and @grpc/grpc-js for Node, both with server
# reflection and OpenTelemetry, from PyPI and npm; and builds the one by tonic. Nothing is started: each test starts its own
# services.
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
install_pins "$venv" "$code/requirements.txt"
node=$(install_node_modules grpc)
printf 'export BENCH_TEST_GRPC_PYTHON=%q\n' "$venv/bin/python"
printf 'export BENCH_TEST_GRPC_NODE=%q\n' "$node"
say 'building the service by tonic'
(cd "$code/tonic" && timeout 900 cargo build --locked --target-dir "$REAL_DIR/grpc-tonic") \
  >"$log/grpc-tonic.log" 2>&1 </dev/null 9>&- || { tail -n 20 "$log/grpc-tonic.log" >&2; die 'tonic does not build'; }
printf 'export BENCH_TEST_GRPC_TONIC=%q\n' "$REAL_DIR/grpc-tonic/debug/tonic-orders"
