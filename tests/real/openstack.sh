#!/usr/bin/env bash
#
# Brings up real services of OpenStack on 127.0.0.1: Keystone, Placement, Glance, Neutron, Nova with a fake driver, Cinder
# with a fake backend, and Mistral; traced by OSProfiler into redis. Then it can run the scenarios for OpenStack there:
#
#     eval "$(tests/real/openstack.sh)"             # tests/real/down.sh stops all of it again
#     tests/real/openstack.sh run [NAME...]         # runs scenarios/openstack/NAME*.yaml, or all; prints a table
#
# Progress goes to standard error; without `run`, standard output carries only `export KEY=value` lines: OS_*, OSPROFILER_*,
# and BENCH_TEST_OPENSTACK_* for tests; on failure `false`. What is installed and runs already is reused. The first time
# takes 5 minutes, another start one, and 2.5 GB of memory. Nothing is written outside REAL_DIR, except by apt-get if a
# server's package is missing.
#
# Settings (environment):
#   REAL_DIR              default .real in the repository; all but the software is in its directory `openstack`
#   REAL_SERVICES         what runs besides Keystone: `nova` (with Placement, Glance and Neutron), `cinder`, `mistral`;
#                         default all three
#   REAL_OPENSTACK_PORT   the first of twelve ports, default: the first free ones from 27000 on
#   REAL_HMAC_KEY         default SECRET_KEY
#   REAL_TOKEN_CACHE      for how many seconds services remember a valid token, default 300; -1: never, so that Keystone
#                         is in every trace
#   REAL_MISTRAL_TRACES   whole (the default) or shipped: with shipped, most of what Mistral does for a request is in traces of
#                         its own, as Mistral is (tests/real/openstack_mistral.py)
#   REAL_NOVA_BACKEND     eventlet (the default) or shipped: with shipped, Nova serves RPC in threads, as it does by default, and
#                         OSProfiler's points of later requests go to older traces
#   REAL_PYTHON           a Python from 3.11 on that can make virtual environments
#   REAL_PYTHONPATH       a directory of Python modules that the services import first, such as tests/perf/plants
#   REAL_TIMEOUT          seconds that each service may take to answer, default 180
#   BENCH                 the program that `run` runs, default target/release/bench, or else target/debug/bench

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
here=$repo/tests/real
command=${1-up}
[[ $command == run || $command == up && $# -le 1 ]] || die "usage: $me [run [NAME...]]"
[[ $command == run ]] || trap '[[ $? == 0 ]] || echo false' EXIT

: "${REAL_HMAC_KEY:=SECRET_KEY}" "${REAL_TOKEN_CACHE:=300}" "${REAL_TIMEOUT:=180}" "${REAL_MISTRAL_TRACES:=whole}" "${REAL_NOVA_BACKEND:=eventlet}"
[[ $REAL_NOVA_BACKEND =~ ^(eventlet|shipped)$ ]] || die "REAL_NOVA_BACKEND=$REAL_NOVA_BACKEND is neither eventlet nor shipped"
export REAL_NOVA_BACKEND
[[ $REAL_MISTRAL_TRACES =~ ^(whole|shipped)$ ]] || die "REAL_MISTRAL_TRACES=$REAL_MISTRAL_TRACES is neither whole nor shipped"
[[ ${REAL_OPENSTACK_PORT-} =~ ^([1-9][0-9]{0,4})?$ ]] || die "REAL_OPENSTACK_PORT=$REAL_OPENSTACK_PORT is no port"
[[ $REAL_HMAC_KEY =~ ^[A-Za-z0-9_.,+/=-]+$ ]] || die "REAL_HMAC_KEY: only letters, digits and _ . , + / = -"
[[ $REAL_TOKEN_CACHE =~ ^(-1|[0-9]{1,5})$ ]] || die "REAL_TOKEN_CACHE=$REAL_TOKEN_CACHE is not a number of seconds"
: "${REAL_SERVICES=nova cinder mistral}"
[[ $REAL_SERVICES =~ ^(nova|cinder|mistral| )*$ ]] || die "REAL_SERVICES=$REAL_SERVICES: only nova, cinder, mistral"
venv=$REAL_DIR/venv   # up.sh has a part of the same software
REAL_DIR=$REAL_DIR/openstack
open_dir
venv=$(realpath -m -- "$venv")
[[ $REAL_DIR =~ ^[A-Za-z0-9_./+@-]+$ ]] || die "REAL_DIR=$REAL_DIR: only letters, digits and _ . / + @ -"
umask 077
unset PYTHONPATH PYTHONHOME GUNICORN_CMD_ARGS OS_CLOUD
[[ -z ${REAL_PYTHONPATH-} ]] || { PYTHONPATH=$(realpath -- "$REAL_PYTHONPATH"); export PYTHONPATH; }
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore
proxied=${http_proxy-}${HTTP_PROXY-}${https_proxy-}${HTTPS_PROXY-}${all_proxy-}${ALL_PROXY-}
export no_proxy="127.0.0.1${no_proxy:+,$no_proxy}" NO_PROXY="127.0.0.1${NO_PROXY:+,$NO_PROXY}"
password=adminpw
python=$venv/bin/python state=$REAL_DIR/state pins=$here/requirements-openstack.txt
mkdir -p "$state" "$REAL_DIR/home" "$REAL_DIR/tmp"

versions() { sed 's/ *#.*//;/./!d' "$pins"; }
wanted() { [[ " $REAL_SERVICES " == *" $1 "* ]]; }

# The order in which they start. A name with a port is the port's.
services=(redis mariadb epmd rabbitmq keystone)
databases=(keystone)
if wanted nova; then
  services+=(placement glance neutron nova-conductor nova-scheduler nova-api nova-compute)
  databases+=(placement glance neutron nova nova_api nova_cell0)
fi
if wanted cinder; then services+=(cinder-scheduler cinder-volume cinder-api) databases+=(cinder); fi
if wanted mistral; then services+=(mistral) databases+=(mistral); fi

install_software() {
  local missing=() part expression='s/ *#.*//'
  command -v redis-server >/dev/null || missing+=(redis-server)
  { [[ -x /usr/sbin/mariadbd ]] && command -v mariadb-install-db >/dev/null; } ||
    missing+=(mariadb-server-core mariadb-client-core)
  { [[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ]] && command -v epmd >/dev/null; } || missing+=(rabbitmq-server)
  if ((${#missing[@]})); then install "${missing[@]}"; fi
  # A line may end with the only service that needs the package.
  for part in nova cinder mistral; do wanted "$part" || expression="/# $part\$/d;$expression"; done
  sed "$expression;/./!d" "$pins" >"$state/requirements.txt"
  # Another script may be at it.
  exec 8>"${venv%/*}/lock"
  flock -w 900 8 || die "another script is busy in ${venv%/*}"
  install_pins "$venv" "$state/requirements.txt" 8>&-
  exec 8>&-
}

# choose_ports: twelve in a row, those of the last time if they are known.
choose_ports() {
  local at known=$state/first-port
  if [[ -n ${REAL_OPENSTACK_PORT-} ]]; then first=$REAL_OPENSTACK_PORT
  elif [[ -s $known ]]; then first=$(<"$known")
  else
    for ((first = 27000; first < 27900; first += 12)); do
      for ((at = first; at < first + 12; at++)); do ! listening "$at" || continue 2; done
      break
    done
  fi
  if [[ -s $known && $(<"$known") != "$first" ]]; then die "was set up at port $(<"$known"); delete $state to move it"; fi
  printf '%s\n' "$first" >"$known"
  declare -gA ports=([redis]=$first [mariadb]=$((first + 1)) [rabbitmq]=$((first + 2)) [epmd]=$((first + 3))
    [keystone]=$((first + 5)) [placement]=$((first + 6)) [glance]=$((first + 7)) [neutron]=$((first + 8))
    [nova-api]=$((first + 9)) [cinder-api]=$((first + 10)) [mistral]=$((first + 11)))   # + 4: Erlang's own
}

write_settings() {
  printf '{"dir": "%s", "venv": "%s", "hmac_key": "%s", "token_cache": %s, "password": "%s", "since": "%s",
    "services": "%s", "ports": {"redis": %d, "mariadb": %d, "rabbitmq": %d, "keystone": %d, "placement": %d, "glance": %d, "neutron": %d,
    "nova": %d, "cinder": %d, "mistral": %d}}\n' "$REAL_DIR" "$venv" "$REAL_HMAC_KEY" "$REAL_TOKEN_CACHE" "$password" \
    "$(TZ=UTC date +%FT%T)" "$REAL_SERVICES" "${ports[redis]}" "${ports[mariadb]}" "${ports[rabbitmq]}" "${ports[keystone]}" \
    "${ports[placement]}" "${ports[glance]}" "${ports[neutron]}" "${ports[nova-api]}" "${ports[cinder-api]}" \
    "${ports[mistral]}" >"$REAL_DIR/settings.json"
}

setup() { timeout 400 "$python" -I "$here/openstack_setup.py" "$1" "$REAL_DIR/settings.json" >&2 </dev/null 9>&- ||
  die "setting up ($1) failed; the logs are in $log"; }

# tool PROGRAM ARGUMENT...: of the virtual environment
tool() {
  local program=$1
  shift
  HOME=$REAL_DIR/home TMPDIR=$REAL_DIR/tmp timeout 600 "$python" "$venv/bin/$program" "$@" >>"$log/manage.out" 2>&1 \
    </dev/null 9>&- || { tail -n 8 "$log/manage.out" >&2; die "$program failed, see $log/manage.out"; }
}

# once NAME COMMAND...: unless it succeeded before, with these versions at these ports
once() {
  local mark=$state/made-$1 key
  key=$(cat <(versions) "$state/first-port" | sha256sum)
  shift
  [[ $(cat "$mark" 2>/dev/null) == "$key" ]] && return
  "$@"
  printf '%s\n' "$key" >"$mark"
}

# ------------------------------------------------------------------ processes

# begin NAME COMMAND...: detached, in run/NAME, unless it runs already with the same settings
begin() {
  local name=$1 at=${ports[$1]-0} wanted
  shift
  mkdir -p "$run/$name"
  wanted=$({
    printf '%s\n' "$@"
    case $name in redis | mariadb | epmd | rabbitmq) ;; *) versions ;; esac
    cat "$run/$name"/*.{conf,py} 2>/dev/null || true
  } | sha256sum | cut -c 1-64)
  if recall "$name" && [[ $fingerprint == "$wanted" ]]; then return; fi
  stop "$name"
  fresh=1
  ! listening "$at" || die "port $at is taken, which $name has; set REAL_OPENSTACK_PORT"
  say "starting $name"
  (
    exec </dev/null >>"$log/$name.out" 2>&1 9>&-
    cd "$run/$name"
    exec setsid env HOME="$REAL_DIR/home" TMPDIR="$REAL_DIR/tmp" "$@"
  ) &
  printf '%s\n' "$! $(start_time $!) $at $wanted" >"$run/$name.pid"   # exec keeps both
  disown
}

# answers PORT REQUEST PATTERN: whether the first line of the answer, within 5 s, fits
answers() {
  local line
  { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
  printf '%b' "$2" >&3
  IFS= read -r -t 5 line <&3 || line=''
  exec 3>&-
  # shellcheck disable=SC2053 # a pattern on purpose
  [[ $line == $3 ]]
}

# serves NAME: whether it answers, or runs if nothing listens
serves() {
  case $1 in
    redis) answers "${ports[redis]}" 'PING\r\n' '+PONG*' ;;
    mariadb | epmd | rabbitmq) listening "${ports[$1]}" ;;
    keystone) answers "${ports[keystone]}" 'GET /v3 HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' 'HTTP/1.? 200*' ;;
    mistral) answers "${ports[mistral]}" 'GET /v2/ HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' 'HTTP/1.? [23]*' ;;
    *) [[ -z ${ports[$1]-} ]] || answers "${ports[$1]}" 'GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' 'HTTP/1.? [23]*' ;;
  esac
}

await() {
  local name deadline=$((SECONDS + REAL_TIMEOUT))
  for name in "$@"; do
    until recall "$name" && serves "$name"; do
      if ! recall "$name" || ((SECONDS >= deadline)); then
        tail -n 15 "$log/$name".* >&2
        stop "$name"
        die "$name ended or did not answer within $REAL_TIMEOUT s (REAL_TIMEOUT); its logs are in $log"
      fi
      sleep 0.3
    done
  done
}

begin_stores() {
  local dir=$run/rabbitmq
  mkdir -p "$run"/{redis,mariadb} "$dir/home"
  # Memory only: OSProfiler's records never expire, so a restart is what empties it.
  printf '%s\n' 'bind 127.0.0.1' "port ${ports[redis]}" "dir $run/redis" 'save ""' 'appendonly no' >"$run/redis/redis.conf"
  begin redis redis-server ./redis.conf
  once mariadb make_mariadb
  {
    printf 'CREATE DATABASE IF NOT EXISTS %s CHARACTER SET utf8mb4;\n' "${databases[@]}"
    printf "CREATE USER IF NOT EXISTS 'bench'@'127.0.0.1' IDENTIFIED BY 'bench';\nGRANT ALL ON *.* TO 'bench'@'127.0.0.1';\n"
  } >"$run/mariadb/init.sql"
  # What it has may be lost: this is for tests.
  printf '%s\n' '[mariadbd]' "user=$(id -un)" "datadir=$state/mariadb" 'socket=mysql.sock' "port=${ports[mariadb]}" \
    'bind-address=127.0.0.1' "pid-file=$run/mariadb/server.pid" "init-file=$run/mariadb/init.sql" skip-name-resolve \
    skip-log-bin max-connections=500 innodb-flush-log-at-trx-commit=0 innodb-use-native-aio=0 >"$run/mariadb/my.conf"
  begin mariadb /usr/sbin/mariadbd --defaults-file="$run/mariadb/my.conf"
  printf '%s\n' "listeners.tcp.1 = 127.0.0.1:${ports[rabbitmq]}" 'default_user = bench' 'default_pass = bench' \
    'log.file = false' 'log.console = true' 'disk_free_limit.absolute = 1MB' >"$dir/rabbitmq.conf"
  : >"$dir/environment"
  printf '[].\n' >"$dir/plugins"
  # Erlang's port mapper would outlive the server; this one is ours.
  export ERL_EPMD_PORT=${ports[epmd]} ERL_EPMD_ADDRESS=127.0.0.1
  if ! recall epmd; then
    stop rabbitmq   # when it misses the port mapper, it starts one that nobody would stop
    if listening "${ports[epmd]}"; then epmd -kill >/dev/null 2>&1 9>&- || true; fi
  fi
  begin epmd epmd
  recall rabbitmq || rm -rf -- "$dir/data"
  begin rabbitmq env HOME="$dir/home" LANG=C.UTF-8 RABBITMQ_CONF_ENV_FILE="$dir/environment" \
    RABBITMQ_CONFIG_FILE="$dir/rabbitmq.conf" RABBITMQ_ENABLED_PLUGINS_FILE="$dir/plugins" \
    RABBITMQ_MNESIA_BASE="$dir/data" RABBITMQ_LOG_BASE="$dir" RABBITMQ_NODENAME="bench$first@localhost" \
    RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="${ports[rabbitmq]}" RABBITMQ_DIST_PORT=$((first + 4)) \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+sbwt none -kernel inet_dist_use_interface {127,0,0,1} -start_epmd false' \
    /usr/lib/rabbitmq/bin/rabbitmq-server
  await redis mariadb
}

make_mariadb() {
  stop mariadb
  rm -rf -- "$state/mariadb"
  (cd / && timeout 120 mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$state/mariadb" --skip-test-db \
    --auth-root-authentication-method=normal >"$log/mariadb-install.out" 2>&1 </dev/null 9>&-) ||
    { tail -n 5 "$log/mariadb-install.out" >&2; die "mariadb-install-db failed, see $log/mariadb-install.out"; }
}

make_keystone() {
  local conf=(--config-file "$run/keystone/keystone.conf") kind who
  who=(--keystone-user "$(id -un)" --keystone-group "$(id -gn)")
  mkdir -p "$state"/{fernet,receipt,credential}-keys
  tool keystone-manage "${conf[@]}" db_sync
  for kind in fernet credential; do tool keystone-manage "${conf[@]}" "${kind}_setup" "${who[@]}"; done
  OS_BOOTSTRAP_PASSWORD=$password tool keystone-manage "${conf[@]}" bootstrap --bootstrap-region-id RegionOne \
    --bootstrap-{public,internal,admin}-url="http://127.0.0.1:${ports[keystone]}/v3"
}

make_placement() { OS_PLACEMENT_CONFIG_DIR=$run/placement tool placement-manage --config-dir "$run/placement" db sync; }
make_glance() { tool glance-manage --config-file "$run/glance/glance-api.conf" db_sync; }
make_cinder() { tool cinder-manage --config-file "$run/cinder-api/cinder.conf" db sync; }
make_mistral() {
  tool mistral-db-manage --config-file "$run/mistral/mistral.conf" upgrade head
  tool mistral-db-manage --config-file "$run/mistral/mistral.conf" populate
}

nova_manage() { tool nova-manage --config-file "$run/nova-api/nova.conf" "$@"; }

make_nova() {
  local url=mysql+pymysql://bench:bench@127.0.0.1:${ports[mariadb]}
  nova_manage api_db sync
  nova_manage cell_v2 map_cell0 --database_connection "$url/nova_cell0?charset=utf8mb4"
  nova_manage db sync
  # It fails if the cell is there, from a time that was interrupted.
  (nova_manage cell_v2 create_cell --name cell1 --database_connection "$url/nova?charset=utf8mb4" \
    --transport-url "rabbit://bench:bench@127.0.0.1:${ports[rabbitmq]}/") || true
}

# No agent of Neutron's runs here, and without one on the compute's host no port can be bound: this is what one
# would have reported, long from now.
make_neutron() {
  tool neutron-db-manage --config-file "$run/neutron/neutron.conf" upgrade heads
  "$python" -I - "${ports[mariadb]}" 9>&- <<'END' || die "Neutron's agent cannot be made up"
import sys
import pymysql

agent = ("00000000-0000-4000-8000-000000000001", "Open vSwitch agent", "neutron-openvswitch-agent", "N/A", "bench-host", 1,
         "2026-01-01", "2026-01-01", "2099-01-01",
         '{"tunnel_types": ["vxlan"], "tunneling_ip": "127.0.0.1", "bridge_mappings": {}, "datapath_type": "system"}', 0)
with pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="bench", password="bench", database="neutron",
                     autocommit=True) as connection:
    connection.cursor().execute(
        "REPLACE INTO agents (id, agent_type, `binary`, topic, host, admin_state_up, created_at, started_at, "
        "heartbeat_timestamp, configurations, `load`) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", agent)
END
}

make_databases() {
  local name pending=()
  for name in "${databases[@]}"; do
    [[ $name == keystone || $name == nova_* ]] || { once "$name" "make_$name" & pending+=($!); }
  done
  for name in "${pending[@]}"; do wait "$name" || die "a database cannot be made; see $log/manage.out"; done
}

begin_nova() {
  local name
  begin placement env OS_PLACEMENT_CONFIG_DIR="$run/placement" "$python" -m gunicorn
  begin glance env OS_GLANCE_CONFIG_DIR="$run/glance" "$python" -m gunicorn
  begin neutron env OS_NEUTRON_CONFIG_DIR="$run/neutron" OS_NEUTRON_CONFIG_FILES=neutron.conf "$python" -m gunicorn
  for name in nova-conductor nova-scheduler; do
    begin "$name" "$python" "$venv/bin/$name" --config-file "$run/$name/nova.conf"
  done
  begin nova-api env OS_NOVA_CONFIG_DIR="$run/nova-api" "$python" -m gunicorn
  await placement
  begin nova-compute "$python" "$here/openstack_compute.py" --config-file "$run/nova-compute/nova.conf"
}

begin_cinder() {
  local name
  for name in cinder-scheduler cinder-volume; do
    begin "$name" "$python" "$venv/bin/$name" --config-file "$run/$name/cinder.conf"
  done
  begin cinder-api "$python" -m gunicorn
}

begin_mistral() {
  begin mistral "$python" "$here/openstack_mistral.py" "redis://127.0.0.1:${ports[redis]}" "$REAL_MISTRAL_TRACES" \
    --config-file "$run/mistral/mistral.conf" --server api,engine,executor
}

begin_services() {
  local part
  begin keystone env -u OS_KEYSTONE_CONFIG_DIR OS_KEYSTONE_CONFIG_FILES="$run/keystone/keystone.conf" "$python" -m gunicorn
  await keystone rabbitmq
  setup catalog
  for part in nova cinder mistral; do if wanted "$part"; then "begin_$part"; fi; done
  await "${services[@]}"
  if [[ -n $fresh ]]; then
    setup first
    if wanted nova; then nova_manage cell_v2 discover_hosts; fi
  fi
}

# stop_others: what ran with another REAL_SERVICES
stop_others() {
  local file name
  for file in "$run"/*.pid; do
    name=$(basename -- "$file" .pid)
    [[ $name == '*' || " ${services[*]} " == *" $name "* ]] || stop "$name"
  done
}

fresh=''
install_software
choose_ports
stop_others
write_settings
setup configure
begin_stores
once keystone make_keystone
await rabbitmq
make_databases
begin_services
say "up after $SECONDS s"

export OS_AUTH_URL=http://127.0.0.1:${ports[keystone]}/v3 OS_USERNAME=admin OS_PASSWORD=$password OS_PROJECT_NAME=admin \
  OS_USER_DOMAIN_NAME=Default OS_PROJECT_DOMAIN_NAME=Default OS_REGION_NAME=RegionOne \
  OSPROFILER_HMAC_KEY=${REAL_HMAC_KEY%%,*} OSPROFILER_CONNECTION_STRING=redis://127.0.0.1:${ports[redis]}
if [[ $command == up ]]; then
  give() { printf 'export %s=%q\n' "$@"; }
  for name in OS_{AUTH_URL,USERNAME,PASSWORD,PROJECT_NAME,USER_DOMAIN_NAME,PROJECT_DOMAIN_NAME,REGION_NAME} \
    OSPROFILER_{HMAC_KEY,CONNECTION_STRING}; do
    give "$name" "${!name}"
  done
  give BENCH_TEST_OPENSTACK_URL "$OS_AUTH_URL" BENCH_TEST_OPENSTACK_PASSWORD "$password" \
    BENCH_TEST_OPENSTACK_HMAC_KEY "$OSPROFILER_HMAC_KEY" BENCH_TEST_OPENSTACK_REDIS_URL "$OSPROFILER_CONNECTION_STRING"
  if wanted mistral; then
    give BENCH_TEST_MISTRAL_URL "http://127.0.0.1:${ports[mistral]}/v2" BENCH_TEST_MISTRAL_LOG "$log/mistral_osprofile.log"
  fi
  if [[ -n $proxied ]]; then give no_proxy "$no_proxy" NO_PROXY "$NO_PROXY"; fi
  exit
fi
exec 9>&-
shift
: "${BENCH:=$repo/target/release/bench}"
[[ -x $BENCH ]] || BENCH=$repo/target/debug/bench
[[ -x $BENCH ]] || die "no program at $BENCH: build it, or name it in BENCH"
exec "$python" -I "$here/openstack_run.py" "$BENCH" "$REAL_DIR/runs" "$@"
