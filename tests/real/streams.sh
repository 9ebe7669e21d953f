#!/usr/bin/env bash
#
# Installs, in REAL_DIR, what the services of tests/streams need: sse-starlette on uvicorn, and Node. Nothing is started: each
# test starts its own services.
#
#     eval "$(tests/real/streams.sh)"
#     cargo test -- real_streams
#
# Standard output carries only `export BENCH_TEST_…=…`, on failure `false`.
#
# Settings (environment): REAL_DIR (default .real in the repository), REAL_PYTHON

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

open_dir
unset PYTHONPATH PYTHONHOME NODE_OPTIONS NODE_PATH
venv=$REAL_DIR/streams-venv
command -v node >/dev/null || install nodejs
install_pins "$venv" "$repo/tests/streams/requirements.txt"
printf 'export BENCH_TEST_STREAMS_PYTHON=%q\n' "$venv/bin/python"
printf 'export BENCH_TEST_STREAMS_NODE=%q\n' "$(command -v node)"
