#!/usr/bin/env bash
#
# Installs, in REAL_DIR, what the services of tests/websocket need: `websockets` for Python with OpenTelemetry, `kosoku` with
# Autobahn's cases, and `ws` for Node, from PyPI and npm. Nothing is started: each test starts its own services.
#
#     eval "$(tests/real/websocket.sh)"
#     cargo test -- real_websockets real_autobahn
#
# Standard output carries only `export BENCH_TEST_…=…`, on failure `false`.
#
# Settings (environment): REAL_DIR (default .real in the repository), REAL_PYTHON

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

open_dir
unset PYTHONPATH PYTHONHOME NODE_OPTIONS NODE_PATH
venv=$REAL_DIR/websocket-venv
install_pins "$venv" "$repo/tests/websocket/requirements.txt"
node=$(install_node_modules websocket)
printf 'export BENCH_TEST_WEBSOCKET_PYTHON=%q\n' "$venv/bin/python"
printf 'export BENCH_TEST_WEBSOCKET_NODE=%q\n' "$node"
