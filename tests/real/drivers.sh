#!/usr/bin/env bash
#
# Installs, in REAL_DIR, a Python with OSProfiler and what its drivers `otlp`, `messaging` and
# `mongodb` need, and a server of MongoDB's wire protocol (nx-27017: MongoDB itself is in no
# distribution's packages); starts that server on 127.0.0.1:
#
#     eval "$(tests/real/drivers.sh)"     # tests/real/down.sh stops it again
#     cargo test --features messaging,mongodb -- real_
#
# Standard output carries only `export BENCH_TEST_…=…`, on failure `false`.
#
# Settings (environment): REAL_DIR (default .real in the repository), REAL_PYTHON (a Python from 3.11 on
# that can make virtual environments), REAL_MONGODB_PORT (default: the first free one from 28017 on)

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

[[ ${REAL_MONGODB_PORT-} =~ ^([1-9][0-9]{0,4})?$ ]] || die "REAL_MONGODB_PORT=$REAL_MONGODB_PORT is no port"
open_dir
unset PYTHONPATH PYTHONHOME
export PYTHONDONTWRITEBYTECODE=1

# environment NAME: a virtual environment with what requirements-NAME.txt says.
environment() {
  local venv=$REAL_DIR/venv-$1 pins=$repo/tests/real/requirements-$1.txt base
  if cmp -s "$pins" "$venv/installed.txt" && "$venv/bin/python" -c '' 2>/dev/null; then return; fi
  if ! base=$(base_python); then
    [[ -n ${REAL_PYTHON-} ]] || install python3 python3-venv
    base=$(base_python) || die "no Python from 3.11 on with venv and ensurepip; name one in REAL_PYTHON"
  fi
  say "installing $1 for $("$base" --version) in $venv"
  rm -rf -- "$venv"
  "$base" -m venv "$venv" 9>&-
  timeout 600 "$venv/bin/python" -m pip --disable-pip-version-check --no-cache-dir --quiet \
    install --only-binary :all: -r "$pins" >"$log/pip-$1.log" 2>&1 </dev/null 9>&- ||
    { tail -n 10 "$log/pip-$1.log" >&2; die "pip failed, see $log/pip-$1.log"; }
  cp "$pins" "$venv/installed.txt"
}


give() { printf 'export %s=%q\n' "$@"; }

environment drivers
environment mongodb

if ! recall mongodb || ! listening "$port" || [[ ${REAL_MONGODB_PORT:-$port} != "$port" ]]; then
  stop mongodb
  port=${REAL_MONGODB_PORT:-28017}
  if [[ -z ${REAL_MONGODB_PORT-} ]]; then
    while listening "$port"; do ((++port < 28117)) || die "no free port from 28017 on; set REAL_MONGODB_PORT"; done
  fi
  ! listening "$port" || die "port $port is taken; set REAL_MONGODB_PORT to a free one"
  mkdir -p "$run/mongodb"
  (
    exec </dev/null >>"$log/mongodb.out" 2>&1 9>&-
    cd "$run/mongodb"
    exec setsid "$REAL_DIR/venv-mongodb/bin/nx-27017" --data-dir memory --host 127.0.0.1 --port "$port" \
      --log-file "$log/mongodb.log" --pid-file "$run/mongodb/pid"
  ) &
  printf '%s\n' "$! $(start_time $!) $port -" >"$run/mongodb.pid"   # exec keeps both
  for ((tenths = 0; tenths < 300; tenths++)); do
    listening "$port" && break
    recall mongodb || break
    sleep 0.1
  done
  if ! recall mongodb || ! listening "$port"; then
    tail -n 10 "$log/mongodb.out" >&2
    stop mongodb
    die "mongodb ended or did not answer within 30 s; its log is $log/mongodb.out"
  fi
  say "mongodb started on port $port"
fi
give BENCH_TEST_DRIVERS_PYTHON "$REAL_DIR/venv-drivers/bin/python" \
  BENCH_TEST_MONGODB_URL "mongodb://127.0.0.1:$port/"
