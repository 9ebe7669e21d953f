#!/usr/bin/env bash
#
# Brings up the stores that OSProfiler keeps traces in, beside the plain redis of up.sh: MariaDB,
# PostgreSQL, a redis with TLS and a password, and a sentinel that watches it; and a Python with
# OSProfiler and the stores' clients. All on 127.0.0.1, from Debian's or Ubuntu's packages, as processes
# of their own: no system service, nothing under /var or /etc but what the packages put there.
#
#     eval "$(tests/real/stores.sh)"     # tests/real/down.sh stops them again
#     cargo test -- real_
#
# Progress goes to standard error; standard output carries only `export BENCH_TEST_…` lines, on failure
# `false`. The passwords in them are those of throw-away servers. What runs already is reused.
#
# Started by root, the servers run as nobody. Their data lies in a directory of its own, since nobody
# may not be able to enter REAL_DIR; down.sh and the next start remove it.
#
# Settings (environment):
#   REAL_DIR            default .real in the repository
#   REAL_STORES_PORT    the first of five ports in a row; default: the first five free ones from 26500 on
#   REAL_PYTHON         a Python from 3.11 on that can make virtual environments
#   REAL_TIMEOUT        seconds that each server may take to start, default 60

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

: "${REAL_TIMEOUT:=60}"
for setting in REAL_TIMEOUT REAL_STORES_PORT; do
  [[ ${!setting-} =~ ^([1-9][0-9]{0,4})?$ ]] || die "$setting=${!setting} is not a number from 1 to 99999"
done
open_dir
umask 077
unset PYTHONPATH PYTHONHOME
export PYTHONDONTWRITEBYTECODE=1
PATH=$PATH:/usr/sbin:/sbin

venv=$REAL_DIR/stores-venv
python=$venv/bin/python
where=$run/stores.dir   # holds the directory of the data
# Signs that a URL must escape, so that every test shows that they are.
user=bench password='p@s:s/w%d' escaped='p%40s%3As%2Fw%25d'

# ------------------------------------------------------------------ software

postgres_bin() {
  local found
  if command -v initdb >/dev/null && command -v postgres >/dev/null; then return; fi
  found=$(printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort -V | tail -n 1)
  [[ -x $found ]] && PATH=$PATH:${found%/*}
}

install_software() {
  local missing=() base pins=$repo/tests/real/stores-requirements.txt
  command -v redis-server >/dev/null || missing+=(redis-server)
  command -v openssl >/dev/null || missing+=(openssl)
  command -v mariadbd >/dev/null && command -v my_print_defaults >/dev/null ||
    missing+=(mariadb-server-core mariadb-client-core)
  postgres_bin || missing+=(postgresql)
  base=$(base_python) || missing+=(python3 python3-venv)
  if ((${#missing[@]})); then install "${missing[@]}"; fi
  postgres_bin || die "no initdb and postgres after installing postgresql"
  if cmp -s "$pins" "$venv/installed.txt" && "$python" -c '' 2>/dev/null; then return; fi
  base=$(base_python) || die "no Python from 3.11 on with venv and ensurepip; name one in REAL_PYTHON"
  say "installing OSProfiler with the clients of its stores for $("$base" --version) in $venv"
  rm -rf -- "$venv"
  "$base" -m venv "$venv" 9>&-
  timeout 600 "$python" -m pip --disable-pip-version-check --no-cache-dir --quiet \
    install --only-binary :all: -r "$pins" >"$log/stores-pip.log" 2>&1 </dev/null 9>&- ||
    { tail -n 10 "$log/stores-pip.log" >&2; die "pip failed, see $log/stores-pip.log"; }
  cp "$pins" "$venv/installed.txt"
}

# ------------------------------------------------------------------ servers

names=(stores-sentinel stores-redis stores-mariadb stores-postgres)


choose_ports() {
  local at
  if [[ -n ${REAL_STORES_PORT-} ]]; then first=$REAL_STORES_PORT; else
    for ((first = 26500; first < 27000; first += 5)); do
      for ((at = first; at < first + 5; at++)); do ! listening "$at" || continue 2; done
      break
    done
  fi
  for ((at = first; at < first + 5; at++)); do
    ! listening "$at" || die "port $at is taken; set REAL_STORES_PORT to the first of five free ones"
  done
}

# once NAME COMMAND...: to its end, as nobody, in the directory of the data.
once() {
  local name=$1
  shift
  (cd "$data" && as_nobody "$@") >"$log/$name.setup" 2>&1 </dev/null 9>&- ||
    { tail -n 10 "$log/$name.setup" >&2; die "$1 failed, see $log/$name.setup"; }
}

# start NAME PORT COMMAND...: detached, as nobody; its pid file is what stop and recall read.
start() {
  local name=$1 at=$2
  shift 2
  (
    exec </dev/null >"$log/$name.out" 2>&1 9>&-
    cd "$data"
    as_nobody setsid "$@"
  ) &
  printf '%s\n' "$! $(start_time $!) $at $fingerprint" >"$run/$name.pid"   # exec keeps both
}

# await NAME PORT
await() {
  local deadline=$((SECONDS + REAL_TIMEOUT))
  until recall "$1" && listening "$2"; do
    if ! recall "$1" || ((SECONDS >= deadline)); then
      tail -n 15 "$log/$1.out" >&2
      die "$1 ended or did not answer within $REAL_TIMEOUT s (REAL_TIMEOUT); its log is $log/$1.out"
    fi
    sleep 0.1
  done
  say "$1 started on port $2"
}

# A certificate for 127.0.0.1, and the authority that vouches for it.
make_certificates() {
  local tls=$data/tls
  mkdir "$tls"
  {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
      -subj '/CN=bench test authority' -keyout "$tls/ca.key" -out "$tls/ca.pem"
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=127.0.0.1' \
      -keyout "$tls/server.key" -out "$tls/server.csr"
    printf '%s\n' 'subjectAltName = IP:127.0.0.1, DNS:localhost' 'basicConstraints = CA:FALSE' >"$tls/server.ext"
    openssl x509 -req -in "$tls/server.csr" -CA "$tls/ca.pem" -CAkey "$tls/ca.key" -CAcreateserial \
      -days 3650 -extfile "$tls/server.ext" -out "$tls/server.pem"
  } >"$log/stores-tls.setup" 2>&1 </dev/null || die "openssl failed, see $log/stores-tls.setup"
  rm "$tls/ca.key"
}

start_redis() {
  cat >"$data/redis.conf" <<END
bind 127.0.0.1
port $redis_port
tls-port $tls_port
tls-cert-file $data/tls/server.pem
tls-key-file $data/tls/server.key
tls-ca-cert-file $data/tls/ca.pem
tls-auth-clients no
requirepass "$password"
masterauth "$password"
dir "$data"
save ""
appendonly no
END
  # The sentinel writes what it learns into its own file.
  cat >"$data/sentinel.conf" <<END
bind 127.0.0.1
port $sentinel_port
dir "$data"
sentinel monitor osprofiler 127.0.0.1 $redis_port 1
sentinel auth-pass osprofiler "$password"
END
  hand_over
  start stores-redis "$tls_port" redis-server "$data/redis.conf"
  start stores-sentinel "$sentinel_port" redis-server "$data/sentinel.conf" --sentinel
}

start_mariadb() {
  mkdir "$data/mariadb"
  hand_over
  once stores-mariadb mariadb-install-db --no-defaults --datadir="$data/mariadb" --skip-test-db \
    --skip-name-resolve --auth-root-authentication-method=normal
  cat >"$data/mariadb.sql" <<END
CREATE DATABASE IF NOT EXISTS osprofiler;
CREATE OR REPLACE USER '$user'@'127.0.0.1' IDENTIFIED BY '$password';
GRANT ALL ON *.* TO '$user'@'127.0.0.1';
CREATE OR REPLACE USER 'guest'@'127.0.0.1' IDENTIFIED BY 'guest';
END
  hand_over
  start stores-mariadb "$mariadb_port" mariadbd --no-defaults --datadir="$data/mariadb" \
    --bind-address=127.0.0.1 --port="$mariadb_port" --socket="$data/mariadb.sock" \
    --pid-file="$data/mariadb.pid" --skip-name-resolve --init-file="$data/mariadb.sql" \
    --ssl-ca="$data/tls/ca.pem" --ssl-cert="$data/tls/server.pem" --ssl-key="$data/tls/server.key" \
    --innodb-flush-log-at-trx-commit=0
}

start_postgres() {
  printf '%s\n' "$password" >"$data/postgres.pw"
  hand_over
  once stores-postgres initdb --pgdata="$data/postgres" --username="$user" --auth=scram-sha-256 \
    --pwfile="$data/postgres.pw" --encoding=UTF8 --locale=C --no-sync
  start stores-postgres "$postgres_port" postgres -D "$data/postgres" -p "$postgres_port" \
    -c listen_addresses=127.0.0.1 -c unix_socket_directories="$data" -c fsync=off \
    -c ssl=on -c ssl_cert_file="$data/tls/server.pem" -c ssl_key_file="$data/tls/server.key"
}

hand_over() { if [[ $EUID == 0 ]]; then chown -R nobody:nogroup "$data"; fi; }

# prove: each store answers a client with the password; PostgreSQL gets its database and guest.
prove() {
  timeout 60 "$python" -I -B - "$data" "$user" "$password" "$postgres_port" "$mariadb_port" "$tls_port" \
    "$sentinel_port" 9>&- >&2 <<'END'
import sys, time
import psycopg2, pymysql, redis, redis.sentinel

data, user, password = sys.argv[1:4]
postgres, mariadb, tls, sentinel = map(int, sys.argv[4:])


def retried(connect):
    for attempt in range(100):
        try:
            return connect()
        except Exception:
            if attempt == 99:
                raise
            time.sleep(0.2)


at = {"host": "127.0.0.1", "user": user, "password": password}
connection = retried(lambda: psycopg2.connect(port=postgres, dbname="postgres", **at))
connection.autocommit = True
with connection.cursor() as cursor:
    cursor.execute("SELECT 1 FROM pg_database WHERE datname = 'osprofiler'")
    if not cursor.fetchone():
        cursor.execute("CREATE DATABASE osprofiler")
        cursor.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
retried(lambda: pymysql.connect(port=mariadb, database="osprofiler", **at))
ca = data + "/tls/ca.pem"
retried(lambda: redis.Redis(port=tls, password=password, ssl=True, ssl_ca_certs=ca, host="127.0.0.1").ping())
watched = redis.sentinel.Sentinel([("127.0.0.1", sentinel)], password=password)
retried(lambda: watched.master_for("osprofiler").ping())
END
}

install_software
fingerprint=$(cat "${BASH_SOURCE[0]}" "$venv/installed.txt" | sha256sum | cut -c 1-64)
current=$fingerprint
running() {
  local name
  [[ -f $where ]] || return 1
  data=$(<"$where")
  [[ -d $data ]] || return 1
  for name in "${names[@]}"; do
    recall "$name" && [[ $fingerprint == "$current" ]] && listening "$port" || return 1
  done
  recall stores-redis
  first=$port
  [[ -z ${REAL_STORES_PORT-} || $REAL_STORES_PORT == "$first" ]]
}
set_ports() {
  tls_port=$first redis_port=$((first + 1)) sentinel_port=$((first + 2)) mariadb_port=$((first + 3))
  postgres_port=$((first + 4))
}

if running; then
  set_ports
  say "the stores run already on ports $first to $((first + 4))"
else
  for name in "${names[@]}"; do stop "$name"; done
  forget_data stores
  choose_ports
  set_ports
  fingerprint=$current
  data=$(mktemp -d "${TMPDIR:-/tmp}/bench-stores.XXXXXX")
  printf '%s\n' "$data" >"$where"
  make_certificates
  start_postgres
  start_mariadb
  start_redis
  await stores-redis "$tls_port"
  await stores-sentinel "$sentinel_port"
  await stores-postgres "$postgres_port"
  await stores-mariadb "$mariadb_port"
fi
prove || die "the stores are up but one of them refuses its client; the logs are in $log"

give() { printf 'export %s=%q\n' "$@"; }
give BENCH_TEST_STORES_PYTHON "$python" \
  BENCH_TEST_MYSQL_URL "mysql+pymysql://$user:$escaped@127.0.0.1:$mariadb_port/osprofiler" \
  BENCH_TEST_POSTGRES_URL "postgresql+psycopg2://$user:$escaped@127.0.0.1:$postgres_port/osprofiler" \
  BENCH_TEST_REDIS_TLS_URL "rediss://:$escaped@127.0.0.1:$tls_port/0?ssl_ca_certs=$data/tls/ca.pem" \
  BENCH_TEST_SENTINEL_URL "redissentinel://:$escaped@127.0.0.1:$sentinel_port/osprofiler"
