#!/usr/bin/env bash
#
# Brings up a RabbitMQ from Debian's or Ubuntu's package on 127.0.0.1, as a process of its own in
# REAL_DIR, with its own epmd: no system service, nothing under /var, no port but its own.
#
#     eval "$(tests/real/broker.sh)"     # tests/real/down.sh stops it again
#     cargo test --features messaging -- real_
#
# Progress goes to standard error; standard output carries only `export BENCH_TEST_AMQP_URL=…`, on
# failure `false`. What runs already is reused. Its queues are gone after a restart.
#
# Settings (environment):
#   REAL_DIR            default .real in the repository
#   REAL_AMQP_PORT      default: the first free one from 25672 on; the two after it are for Erlang
#   REAL_TIMEOUT        seconds it may take to start, default 60

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

: "${REAL_TIMEOUT:=60}"
[[ ${REAL_AMQP_PORT-} =~ ^([1-9][0-9]{0,4})?$ ]] || die "REAL_AMQP_PORT=$REAL_AMQP_PORT is no port"
open_dir
umask 077   # Erlang refuses a cookie that others can read
server=/usr/lib/rabbitmq/bin/rabbitmq-server
user=bench password=brokerpw

if [[ ! -x $server ]] || ! command -v epmd >/dev/null; then install rabbitmq-server; fi
[[ -x $server ]] || die "no $server after installing rabbitmq-server"


# speaks PORT: whether an AMQP server greets there, within 2 s.
speaks() {
  local greeting=''
  { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
  printf 'AMQP\0\0\11\1' >&3
  IFS= read -r -t 2 -n 1 -d '' greeting <&3 || true
  exec 3>&-
  [[ $greeting == $'\1' ]]   # the type of a method's frame
}

# start NAME PORT COMMAND...: detached; its pid file is what stop and recall read.
start() {
  local name=$1 at=$2
  shift 2
  (
    exec </dev/null >>"$log/$name.out" 2>&1 9>&-
    cd "$dir"
    exec setsid "$@"
  ) &
  printf '%s\n' "$! $(start_time $!) $at -" >"$run/$name.pid"   # exec keeps both
}

give() { printf 'export BENCH_TEST_AMQP_URL=%q\n' "messaging://$user:$password@127.0.0.1:$1/"; }

if recall rabbitmq && [[ -z ${REAL_AMQP_PORT-} || $REAL_AMQP_PORT == "$port" ]] && speaks "$port"; then
  say "rabbitmq runs already on port $port"
  give "$port"
  exit 0
fi
stop rabbitmq
stop epmd

if [[ -z ${REAL_AMQP_PORT-} ]]; then
  for ((REAL_AMQP_PORT = 25672; REAL_AMQP_PORT < 25772; REAL_AMQP_PORT += 3)); do
    listening "$REAL_AMQP_PORT" || listening $((REAL_AMQP_PORT + 1)) || listening $((REAL_AMQP_PORT + 2)) || break
  done
fi
for at in "$REAL_AMQP_PORT" $((REAL_AMQP_PORT + 1)) $((REAL_AMQP_PORT + 2)); do
  ! listening "$at" || die "port $at is taken; set REAL_AMQP_PORT to the first of three free ones"
done

dir=$run/rabbitmq
rm -rf -- "$dir"
mkdir -p "$dir/home"
cat >"$dir/rabbitmq.conf" <<END
listeners.tcp.1 = 127.0.0.1:$REAL_AMQP_PORT
default_user = $user
default_pass = $password
log.file = false
log.console = true
# Disks of test machines are full and fine.
disk_free_limit.absolute = 1MB
END
: >"$dir/env.conf"
printf '[].\n' >"$dir/plugins"

# Erlang's port mapper would outlive the server; this one is ours and on our port.
export ERL_EPMD_PORT=$((REAL_AMQP_PORT + 1)) ERL_EPMD_ADDRESS=127.0.0.1
start epmd "$ERL_EPMD_PORT" epmd
start rabbitmq "$REAL_AMQP_PORT" env HOME="$dir/home" LANG=C.UTF-8 \
  RABBITMQ_CONF_ENV_FILE="$dir/env.conf" RABBITMQ_CONFIG_FILE="$dir/rabbitmq.conf" \
  RABBITMQ_ENABLED_PLUGINS_FILE="$dir/plugins" RABBITMQ_MNESIA_BASE="$dir/data" \
  RABBITMQ_LOG_BASE="$dir" RABBITMQ_NODENAME="bench$REAL_AMQP_PORT@localhost" \
  RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$REAL_AMQP_PORT" \
  RABBITMQ_DIST_PORT=$((REAL_AMQP_PORT + 2)) \
  RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false' \
  "$server"

deadline=$((SECONDS + REAL_TIMEOUT))
until recall rabbitmq && speaks "$REAL_AMQP_PORT"; do
  if ! recall rabbitmq || ((SECONDS >= deadline)); then
    tail -n 15 "$log/rabbitmq.out" >&2
    stop rabbitmq
    stop epmd
    die "rabbitmq ended or did not answer within $REAL_TIMEOUT s (REAL_TIMEOUT); its log is $log/rabbitmq.out"
  fi
  sleep 0.2
done
say "rabbitmq started on port $REAL_AMQP_PORT"
give "$REAL_AMQP_PORT"
