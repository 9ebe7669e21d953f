#!/usr/bin/env bash
#
# Brings up a real Keystone that OSProfiler traces into a real redis, all on 127.0.0.1:
#
#     eval "$(tests/real/up.sh)"     # tests/real/down.sh stops it again
#     cargo test -- real_
#
# Progress goes to standard error; standard output carries only `export KEY=value` lines: what
# deployments/keystone.yaml reads (OS_*, OSPROFILER_*) and what the tests read (BENCH_TEST_*).
# On failure it carries `false`, so that the eval fails too.
#
# What is installed and what runs is reused; what runs with other settings is restarted.
# Nothing is written outside REAL_DIR, except by apt-get if redis-server or python3 is missing.
#
# Settings (environment):
#   REAL_DIR               default .real in the repository
#   REAL_PLACEMENT=1       Placement too; it asks Keystone about the token of every request,
#                          so its traces span two services
#   REAL_KEYSTONE_PORT, REAL_REDIS_PORT, REAL_PLACEMENT_PORT
#                          default: the first free ones from 25000, 26379, 28778
#   REAL_HMAC_KEY          default SECRET_KEY; the services accept any of several, comma-separated
#   REAL_WORKERS           processes per service, default 3
#   REAL_PYTHON            a Python from 3.11 on that can make virtual environments
#   REAL_TIMEOUT           seconds that each service may take to answer, default 60
#   REAL_CLOUD=N           another Keystone, redis and Placement beside the first ones, with the same software; gives
#                          the tests' BENCH_TEST_* variables with the suffix _N, for tests that break their services

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

: "${REAL_PLACEMENT:=0}" "${REAL_HMAC_KEY:=SECRET_KEY}" "${REAL_WORKERS:=3}" "${REAL_TIMEOUT:=60}" "${REAL_CLOUD:=}"
password=adminpw

for setting in REAL_CLOUD REAL_WORKERS REAL_TIMEOUT REAL_KEYSTONE_PORT REAL_REDIS_PORT REAL_PLACEMENT_PORT; do
  [[ ${!setting-} =~ ^([1-9][0-9]{0,4})?$ ]] || die "$setting=${!setting} is not a number from 1 to 99999"
done
[[ $REAL_PLACEMENT == [01] ]] || die "REAL_PLACEMENT=$REAL_PLACEMENT is neither 0 nor 1"
# Both end up in oslo.config files, where $, quotes and # have a meaning.
[[ $REAL_HMAC_KEY =~ ^[A-Za-z0-9_.,+/=-]+$ ]] || die "REAL_HMAC_KEY: only letters, digits and _ . , + / = -"
venv=$REAL_DIR/venv
if [[ -n $REAL_CLOUD ]]; then REAL_DIR=$REAL_DIR/clouds/$REAL_CLOUD; fi
open_dir
venv=$(realpath -m -- "$venv")
[[ $REAL_DIR =~ ^[A-Za-z0-9_./+@\ -]+$ ]] || die "REAL_DIR=$REAL_DIR: only letters, digits, blanks and _ . / + @ -"

umask 077   # Keystone complains, request by request, about key directories that others can read
unset PYTHONPATH PYTHONHOME GUNICORN_CMD_ARGS
export PYTHONDONTWRITEBYTECODE=1   # pip compiles what it installs; nothing else may be touched

# A proxy that is meant for apt-get and pip must not see requests to our services.
proxied=${http_proxy-}${HTTP_PROXY-}${https_proxy-}${HTTPS_PROXY-}${all_proxy-}${ALL_PROXY-}
export no_proxy="127.0.0.1${no_proxy:+,$no_proxy}" NO_PROXY="127.0.0.1${NO_PROXY:+,$NO_PROXY}"

python=$venv/bin/python
state=$REAL_DIR/state   # databases and keys
mkdir -p "$state" "$REAL_DIR/home" "$REAL_DIR/tmp"

# ------------------------------------------------------------------ software

pins=$repo/tests/real/requirements.txt

install_software() {
  command -v redis-server >/dev/null || install redis-server
  command -v redis-server >/dev/null || die "no redis-server on the path"
  install_pins "$venv" "$pins"
}

# ------------------------------------------------------------------ services


# answers PORT REQUEST PATTERN: whether the first line of the answer, within 2 s, fits. The time
# limit matters: a gunicorn whose workers cannot start accepts connections and never answers.
answers() {
  local line
  { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
  printf '%b\r\n' "$2" >&3
  IFS= read -r -t 2 line <&3 || line=''
  exec 3>&-
  # shellcheck disable=SC2053 # a pattern on purpose
  [[ $line == $3 ]]
}
redis_answers() { answers "$1" PING '+PONG*'; }
keystone_answers() { workers_ready keystone && answers "$1" 'GET /v3 HTTP/1.0\r\n' 'HTTP/1.? 200*'; }
placement_answers() { workers_ready placement && answers "$1" 'GET / HTTP/1.0\r\n' 'HTTP/1.? 200*'; }

# workers_ready NAME: whether every worker has loaded the service. One that answers is not enough: gunicorn
# ends all of them as soon as one cannot start, and leaves the port to whoever comes next.
workers_ready() {
  local ready=()
  [[ -f $run/$1/ready ]] && mapfile -t ready <"$run/$1/ready"
  ((${#ready[@]} >= REAL_WORKERS))
}

# choose_port SETTING NAME DEFAULT: sets SETTING, unless the caller did, to the port that NAME
# has now, or else to the first free one from DEFAULT on.
choose_port() {
  local -n chosen=$1
  local end=$(($3 + 100))
  [[ -z ${chosen-} ]] || return 0
  if recall "$2"; then chosen=$port; return; fi
  for ((chosen = $3; chosen < end; chosen++)); do
    listening "$chosen" || return 0
  done
  die "no free port from $3 on; set $1"
}

# serve NAME SETTING COMMAND...: unless it runs already with the same settings and answers,
# (re)starts COMMAND in the directory run/NAME, detached; then waits until it answers at the
# port in SETTING. The settings are what lies in run/NAME, the command and the versions.
serve() {
  local name=$1 setting=$2 dir=$run/$1 wanted tries deadline
  local at=${!setting}
  shift 2
  wanted=$({ printf '%s\n' "$@"; cat "$pins" "$dir"/*.conf*; } | sha256sum | cut -c 1-64)
  if recall "$name" && [[ $fingerprint == "$wanted" ]] && "${name}_answers" "$at"; then
    say "$name runs already on port $at"
    return
  fi
  stop "$name"
  rm -f "$dir/ready"
  # The workers of a service of ours that was killed take a second to notice and leave.
  for ((tries = 0; tries < 15; tries++)); do
    listening "$at" || break
    sleep 0.2
  done
  ! listening "$at" || die "port $at is taken by something else; set $setting to a free one"
  (
    exec </dev/null >>"$log/$name.out" 2>&1 9>&-
    cd "$dir"
    exec setsid env HOME="$REAL_DIR/home" TMPDIR="$REAL_DIR/tmp" PYTHONWARNINGS=ignore "$@"
  ) &
  printf '%s\n' "$! $(start_time $!) $at $wanted" >"$run/$name.pid"   # exec keeps both
  deadline=$((SECONDS + REAL_TIMEOUT))
  until recall "$name" && "${name}_answers" "$at"; do
    if ! recall "$name" || ((SECONDS >= deadline)); then
      tail -n 15 "$log/$name".* >&2
      stop "$name"
      die "$name ended or did not answer within $REAL_TIMEOUT s (REAL_TIMEOUT); its logs are in $log"
    fi
    sleep 0.1
  done
  say "$name started on port $at"
}

# Both services bring OSProfiler's middleware; this section of their file wakes it up.
profiler_section() {
  printf '%s\n' '[profiler]' 'enabled = true' 'trace_sqlalchemy = true' \
    "hmac_keys = $REAL_HMAC_KEY" "connection_string = $redis_url"
}

# gunicorn_settings NAME PORT: in a file, because the services read the command line themselves.
# One thread for each process: of several that bring the first requests of a process, Keystone
# answers some with a wrong 403, while its policy is being loaded. The class is for keep-alive.
gunicorn_settings() {
  cat <<END
wsgi_app = "$1.wsgi.api:application"
bind = "127.0.0.1:$2"
workers = $REAL_WORKERS
worker_class = "gthread"
threads = 1
keepalive = 30
graceful_timeout = 2
errorlog = "$log/$1.gunicorn.log"
control_socket_disable = True


def post_worker_init(worker):
    with open("ready", "a") as ready:
        print(worker.pid, file=ready)
END
}

serve_redis() {
  mkdir -p "$run/redis"
  # Memory only: OSProfiler's records never expire, so a restart is what empties it.
  cat >"$run/redis/redis.conf" <<END
bind 127.0.0.1
port $REAL_REDIS_PORT
dir "$run/redis"
logfile "$log/redis.log"
save ""
appendonly no
END
  serve redis REAL_REDIS_PORT redis-server ./redis.conf
}

serve_keystone() {
  local conf=$run/keystone/keystone.conf made
  mkdir -p "$run/keystone"
  cat >"$conf" <<END
[DEFAULT]
log_file = $log/keystone.log
use_stderr = false

[database]
connection = sqlite:///$state/keystone.db

[fernet_tokens]
key_repository = $state/fernet-keys

[fernet_receipts]
key_repository = $state/receipt-keys

[credential]
key_repository = $state/credential-keys

# Keystone's default of 12 costs 0.4 s of CPU per login.
[identity]
password_hash_rounds = 4

$(profiler_section)
END
  gunicorn_settings keystone "$REAL_KEYSTONE_PORT" >"$run/keystone/gunicorn.conf.py"

  # Each step is safe to repeat, but takes 2 s.
  made="$keystone_url $(sha256sum <"$pins")"
  if [[ $(cat "$state/made" 2>/dev/null) != "$made" ]]; then
    say "preparing Keystone's database, keys and admin"
    mkdir -p "$state"/{fernet,receipt,credential}-keys
    manage keystone db_sync
    manage keystone fernet_setup --keystone-user "$(id -un)" --keystone-group "$(id -gn)"
    manage keystone credential_setup --keystone-user "$(id -un)" --keystone-group "$(id -gn)"
    OS_BOOTSTRAP_PASSWORD=$password manage keystone bootstrap --bootstrap-region-id RegionOne \
      --bootstrap-{public,internal,admin}-url="$keystone_url/v3"
    printf '%s\n' "$made" >"$state/made"
  fi
  serve keystone REAL_KEYSTONE_PORT env -u OS_KEYSTONE_CONFIG_DIR OS_KEYSTONE_CONFIG_FILES="$conf" \
    "$python" -m gunicorn
}

# manage SERVICE COMMAND...
manage() {
  local service=$1
  shift
  timeout 120 "$python" -W ignore "$venv/bin/$service-manage" --config-file "$run/$service/$service.conf" \
    "$@" >>"$log/manage.out" 2>&1 </dev/null 9>&- ||
    { tail -n 5 "$log/manage.out" >&2; die "$service-manage $1 failed, see $log/manage.out"; }
}

serve_placement() {
  local made
  mkdir -p "$run/placement"
  # No token cache: every request shall reach Keystone, so that every trace spans both.
  cat >"$run/placement/placement.conf" <<END
[DEFAULT]
log_file = $log/placement.log
use_stderr = false

[api]
auth_strategy = keystone

[placement_database]
connection = sqlite:///$state/placement.db

[keystone_authtoken]
www_authenticate_uri = $keystone_url/v3
auth_url = $keystone_url/v3
auth_type = password
username = admin
password = $password
user_domain_id = default
project_name = admin
project_domain_id = default
token_cache_time = -1

$(profiler_section)
END
  gunicorn_settings placement "$REAL_PLACEMENT_PORT" >"$run/placement/gunicorn.conf.py"
  # Tables, traits and resource classes: not by the workers as they start, because they would lock each other
  # out, and all would end. Loading the service once, alone, writes the latter two.
  made=2$(sha256sum <"$pins")
  if [[ $(cat "$state/placement-made" 2>/dev/null) != "$made" ]]; then
    say "preparing Placement's database"
    manage placement db sync
    OS_PLACEMENT_CONFIG_DIR=$run/placement timeout 120 "$python" -W ignore -c 'import placement.wsgi.api' \
      >>"$log/manage.out" 2>&1 </dev/null 9>&- ||
      { tail -n 5 "$log/manage.out" >&2; die "Placement cannot be loaded, see $log/manage.out"; }
    printf '%s\n' "$made" >"$state/placement-made"
  fi
  serve placement REAL_PLACEMENT_PORT env OS_PLACEMENT_CONFIG_DIR="$run/placement" "$python" -m gunicorn
}

# prove_tracing: one login, signed by OSProfiler itself, must leave a whole trace in redis;
# nothing in Keystone's answer would tell that it did not.
prove_tracing() {
  timeout 30 "$python" -I -B - "$keystone_url" "$password" "${REAL_HMAC_KEY%%,*}" "$redis_url" 9>&- >&2 <<'END'
import json, sys, urllib.request
import redis
from osprofiler import profiler, web

url, password, key, collector = sys.argv[1:]
base_id = profiler.init(key).get_base_id()
domain = {"id": "default"}
login = {"auth": {
    "identity": {"methods": ["password"],
                 "password": {"user": {"name": "admin", "domain": domain, "password": password}}},
    "scope": {"project": {"name": "admin", "domain": domain}}}}
request = urllib.request.Request(
    url + "/v3/auth/tokens", json.dumps(login).encode(),
    {"Content-Type": "application/json", **web.get_trace_id_headers()})
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20).read()
records = redis.Redis.from_url(collector)
names = [json.loads(r)["name"] for r in records.lrange("osprofiler_opt:" + base_id, 0, -1)]
records.delete("osprofiler_opt:" + base_id)
if names[:1] != ["wsgi-stop"] or names[-1:] != ["wsgi-start"] or "db-stop" not in names:
    sys.exit("redis holds no whole trace of a signed login: %s" % names)
END
}

install_software
choose_port REAL_REDIS_PORT redis 26379
choose_port REAL_KEYSTONE_PORT keystone 25000
redis_url=redis://127.0.0.1:$REAL_REDIS_PORT
keystone_url=http://127.0.0.1:$REAL_KEYSTONE_PORT
serve_redis
serve_keystone
if [[ $REAL_PLACEMENT == 1 ]]; then
  choose_port REAL_PLACEMENT_PORT placement 28778
  serve_placement
else
  stop placement
fi
prove_tracing || die "Keystone is up but not traced; the logs are in $log"

give() { printf 'export %s=%q\n' "$@"; }
if [[ -z $REAL_CLOUD ]]; then
  give OS_AUTH_URL "$keystone_url/v3" OS_USERNAME admin OS_PASSWORD "$password" OS_PROJECT_NAME admin \
    OS_USER_DOMAIN_NAME Default OS_PROJECT_DOMAIN_NAME Default \
    OSPROFILER_HMAC_KEY "${REAL_HMAC_KEY%%,*}" OSPROFILER_CONNECTION_STRING "$redis_url" BENCH_TEST_PYTHON "$python"
fi
suffix=${REAL_CLOUD:+_$REAL_CLOUD}
give "BENCH_TEST_KEYSTONE_URL$suffix" "$keystone_url" "BENCH_TEST_KEYSTONE_DB$suffix" "$state/keystone.db" \
  "BENCH_TEST_REDIS_URL$suffix" "$redis_url"
if [[ $REAL_PLACEMENT == 1 ]]; then
  give "BENCH_TEST_PLACEMENT_URL$suffix" "http://127.0.0.1:$REAL_PLACEMENT_PORT"
fi
if [[ -n $proxied ]]; then give no_proxy "$no_proxy" NO_PROXY "$NO_PROXY"; fi
