#!/usr/bin/env bash
#
# Brings up a small shop of three services that speak OpenTelemetry as their users set them up: Flask with
# SQLAlchemy on PostgreSQL and redis (twice: one sends its spans by gRPC, one by HTTP), Express on Node, and
# axum in Rust. One request goes through all three, by HTTP and, if it asks for that, by gRPC from Flask to Node. Their
# code is in tests/otel. All on 127.0.0.1, from PyPI, npm, crates.io and Debian's or Ubuntu's packages.
#
#     eval "$(tests/real/otel.sh)"     # tests/real/down.sh stops it again
#     cargo test -- real_otel
#
# They send their spans to BENCH_TEST_OTEL_RECEIVER, where nothing listens until bench does.
# Progress goes to standard error; standard output carries only `export BENCH_TEST_…` lines, on failure
# `false`. What runs already is reused.
#
# Settings (environment):
#   REAL_DIR         default .real in the repository
#   REAL_OTEL_PORT   the first of eight ports in a row; default: the first eight free ones from 26600 on
#   REAL_PYTHON      a Python from 3.11 on that can make virtual environments
#   REAL_TIMEOUT     seconds that each service may take to start, default 60

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

: "${REAL_TIMEOUT:=60}"
for setting in REAL_TIMEOUT REAL_OTEL_PORT; do
  [[ ${!setting-} =~ ^([1-9][0-9]{0,4})?$ ]] || die "$setting=${!setting} is not a number from 1 to 99999"
done
open_dir
umask 077
unset PYTHONPATH PYTHONHOME NODE_OPTIONS NODE_PATH
for setting in ${!OTEL_@}; do unset "$setting"; done
export PYTHONDONTWRITEBYTECODE=1
PATH=$PATH:/usr/sbin:/sbin

code=$repo/tests/otel
venv=$REAL_DIR/otel-venv
node=$REAL_DIR/otel-node
modules=$REAL_DIR/otel-modules   # made of pickups.proto
python=$venv/bin/python
parcels=${CARGO_TARGET_DIR:-$repo/target}/debug/otel-parcels
where=$run/otel.dir   # holds the directory of PostgreSQL's data

# ------------------------------------------------------------------ software

postgres_bin() {
  local found
  if command -v initdb >/dev/null && command -v postgres >/dev/null && command -v psql >/dev/null; then return; fi
  found=$(printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort -V | tail -n 1)
  [[ -x $found ]] && PATH=$PATH:${found%/*}
}

install_software() {
  local missing=() base pins=$code/requirements.txt
  command -v redis-server >/dev/null || missing+=(redis-server)
  command -v node >/dev/null || missing+=(nodejs)
  command -v npm >/dev/null || missing+=(npm)
  postgres_bin || missing+=(postgresql)
  base=$(base_python) || missing+=(python3 python3-venv)
  if ((${#missing[@]})); then install "${missing[@]}"; fi
  postgres_bin || die "no initdb, postgres and psql after installing postgresql"
  if ! cmp -s "$pins" "$venv/installed.txt" || ! "$python" -c '' 2>/dev/null; then
    base=$(base_python) || die "no Python from 3.11 on with venv and ensurepip; name one in REAL_PYTHON"
    say "installing Flask, SQLAlchemy, grpcio and OpenTelemetry for $("$base" --version) in $venv"
    rm -rf -- "$venv"
    "$base" -m venv "$venv" 9>&-
    quietly otel-pip timeout 600 "$python" -m pip --disable-pip-version-check --no-cache-dir --quiet \
      install --only-binary :all: -r "$pins"
    cp "$pins" "$venv/installed.txt"
  fi
  if ! cmp -s "$code/package-lock.json" "$node/installed.json"; then
    say "installing Express, gRPC and OpenTelemetry for node $(node --version) in $node"
    rm -rf -- "$node"
    mkdir "$node"
    cp "$code"/package{,-lock}.json "$node"
    # No package's code runs.
    (cd "$node" && quietly otel-npm timeout 600 npm ci --ignore-scripts --no-audit --no-fund --omit=dev)
    cp "$code/package-lock.json" "$node/installed.json"
  fi
  quietly otel-cargo timeout 1200 cargo build --locked --manifest-path "$repo/Cargo.toml" -p otel-parcels
}

# quietly NAME COMMAND...: what it prints goes to a log, whose end is shown if it fails.
quietly() {
  local name=$1
  shift
  "$@" >"$log/$name.log" 2>&1 </dev/null 9>&- || { tail -n 10 "$log/$name.log" >&2; die "failed: $*; see $log/$name.log"; }
}

# ------------------------------------------------------------------ services

names=(otel-postgres otel-redis otel-parcels otel-delivery otel-shop-grpc otel-shop-http)

choose_ports() {
  local at
  if [[ -n ${REAL_OTEL_PORT-} ]]; then first=$REAL_OTEL_PORT; else
    for ((first = 26600; first < 27300; first += 8)); do
      for ((at = first; at < first + 8; at++)); do ! listening "$at" || continue 2; done
      break
    done
  fi
  for ((at = first; at < first + 8; at++)); do
    ! listening "$at" || die "port $at is taken; set REAL_OTEL_PORT to the first of eight free ones"
  done
}

# start NAME PORT DIRECTORY COMMAND...: detached; waits until it listens.
start() {
  local name=$1 at=$2 in=$3 deadline=$((SECONDS + REAL_TIMEOUT))
  shift 3
  (
    exec </dev/null >"$log/$name.out" 2>&1 9>&-
    cd "$in"
    "$@"
  ) &
  printf '%s\n' "$! $(start_time $!) $at $fingerprint" >"$run/$name.pid"   # exec keeps both
  until recall "$name" && listening "$at"; do
    if ! recall "$name" || ((SECONDS >= deadline)); then
      tail -n 15 "$log/$name.out" >&2
      die "$name ended or did not answer within $REAL_TIMEOUT s (REAL_TIMEOUT); its log is $log/$name.out"
    fi
    sleep 0.1
  done
  say "$name started on port $at"
}

postgres() {
  as_nobody setsid postgres -D "$data/postgres" -p "$first" -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories="$data" -c fsync=off -c max_parallel_workers_per_gather=0 -c shared_buffers=256MB
}

start_postgres() {
  if [[ $EUID == 0 ]]; then chown nobody:nogroup "$data"; fi
  (cd "$data" && quietly otel-initdb as_nobody initdb --pgdata="$data/postgres" --username=shop --auth=trust \
    --encoding=UTF8 --locale=C --no-sync)
  start otel-postgres "$first" "$data" postgres
  local tries
  for ((tries = 0; tries < 100; tries++)); do   # it listens before it takes connections
    psql -qAt "$database" -c 'SELECT 1' >/dev/null 2>&1 </dev/null && break
    sleep 0.1
  done
  quietly otel-schema psql -q -v ON_ERROR_STOP=1 "$database" -f "$code/schema.sql"
}

redis() {
  exec setsid redis-server --bind 127.0.0.1 --port $((first + 1)) --dir "$run" --save '' --appendonly no
}

# traced SERVICE COMMAND...: all that an OpenTelemetry user sets.
traced() {
  exec setsid env OTEL_SERVICE_NAME="$1" OTEL_EXPORTER_OTLP_ENDPOINT="http://$receiver" \
    OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none OTEL_BSP_SCHEDULE_DELAY=500 \
    OTEL_NODE_RESOURCE_DETECTORS=env,host,os,process "${@:2}"
}

shop() {
  traced shop OTEL_EXPORTER_OTLP_PROTOCOL="$1" SHOP_DATABASE="postgresql+psycopg2://shop@127.0.0.1:$first/postgres" \
    SHOP_REDIS="redis://127.0.0.1:$((first + 1))" SHOP_DELIVERY="$delivery_url" SHOP_PICKUPS="$pickups" \
    PYTHONPATH="$modules" \
    "$python" "$venv/bin/opentelemetry-instrument" "$python" "$venv/bin/flask" --app "$code/shop.py" run --port "$2"
}

start_all() {
  start_postgres
  start otel-redis $((first + 1)) "$run" redis
  start otel-parcels $((first + 2)) "$run" traced parcels "$parcels" "127.0.0.1:$((first + 2))"
  cp "$code/delivery.js" "$node"
  start otel-delivery $((first + 3)) "$node" traced delivery node \
    --require @opentelemetry/auto-instrumentations-node/register delivery.js $((first + 3)) \
    "http://127.0.0.1:$((first + 2))" $((first + 7)) "$code/pickups.proto"
  mkdir -p "$modules"
  quietly otel-protoc "$python" -m grpc_tools.protoc -I "$code" --python_out "$modules" --grpc_python_out "$modules" \
    pickups.proto
  start otel-shop-grpc $((first + 4)) "$run" shop grpc $((first + 4))
  start otel-shop-http $((first + 5)) "$run" shop http/protobuf $((first + 5))
}

install_software
fingerprint=$(cat "${BASH_SOURCE[0]}" "$code"/*.* "$parcels" | sha256sum | cut -c 1-64)
current=$fingerprint
running() {
  local name
  for name in "${names[@]}"; do
    recall "$name" && [[ $fingerprint == "$current" ]] && listening "$port" || return 1
  done
  recall otel-postgres
  first=$port
  [[ -z ${REAL_OTEL_PORT-} || $REAL_OTEL_PORT == "$first" ]]
}
set_addresses() {
  database="host=127.0.0.1 port=$first user=shop dbname=postgres"
  delivery_url=http://127.0.0.1:$((first + 3))
  pickups=127.0.0.1:$((first + 7))
  receiver=127.0.0.1:$((first + 6))
}

if running; then
  set_addresses
  say "the shop runs already, from port $first on"
else
  for name in "${names[@]}"; do stop "$name"; done
  forget_data otel
  choose_ports
  set_addresses
  fingerprint=$current
  data=$(mktemp -d "${TMPDIR:-/tmp}/bench-otel.XXXXXX")
  printf '%s\n' "$data" >"$where"
  start_all
fi

give() { printf 'export %s=%q\n' "$@"; }
give BENCH_TEST_OTEL_GRPC_URL "http://127.0.0.1:$((first + 4))" \
  BENCH_TEST_OTEL_HTTP_URL "http://127.0.0.1:$((first + 5))" BENCH_TEST_OTEL_RECEIVER "$receiver"
