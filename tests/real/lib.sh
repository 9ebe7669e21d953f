# shellcheck shell=bash
#
# Shared by the scripts beside it: where things are, and which processes are ours.

set -euo pipefail

me=${0##*/}
say() { printf '%s: %s\n' "$me" "$*" >&2; }
die() { say "error: $*"; exit 1; }

repo=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
: "${REAL_DIR:=$repo/.real}"

# open_dir: makes REAL_DIR absolute and takes its lock, so that one up.sh or down.sh works
# on it at a time. Descriptor 9 holds the lock: whatever outlives the script must not inherit it.
open_dir() {
  mkdir -p -- "$REAL_DIR" || die "cannot create REAL_DIR=$REAL_DIR"
  REAL_DIR=$(cd -- "$REAL_DIR" && pwd -P)
  run=$REAL_DIR/run   # NAME.pid holds: pid, start time, port, fingerprint of the settings
  log=$REAL_DIR/log
  mkdir -p "$run" "$log"
  exec 9>"$REAL_DIR/lock"
  flock -w 900 9 || die "another up.sh or down.sh is busy in $REAL_DIR"
}

# start_time PID: in ticks since boot. A pid comes back one day, a pid with its start time
# does not. Fails for a zombie too: nothing of it runs any more.
start_time() {
  local stat fields
  { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
  read -r -a fields <<<"${stat##*) }"   # after the program's name, which may hold blanks
  [[ ${fields[0]} != [ZX] ]] && printf '%s' "${fields[19]}"
}

# recall NAME: true if the NAME that we started still runs; sets pid, port and fingerprint.
# shellcheck disable=SC2034 # two of them are for up.sh
recall() {
  local started
  pid='' port='' fingerprint=''
  [[ -f $run/$1.pid ]] && read -r pid started port fingerprint <"$run/$1.pid" || return 1
  [[ $pid =~ ^[1-9][0-9]*$ && $(start_time "$pid") == "$started" ]]
}

# gone NAME: waits up to 10 s for it to end.
gone() {
  local tenths
  for ((tenths = 0; tenths < 100; tenths++)); do
    recall "$1" || return 0
    sleep 0.1
  done
  return 1
}

# stop NAME: asks, then kills with its workers (each service leads a process group).
stop() {
  if recall "$1"; then
    say "stopping $1 (pid $pid)"
    kill -TERM "$pid" 2>/dev/null || true
    gone "$1" || kill -KILL -- "-$pid" 2>/dev/null || true
    gone "$1" || die "$1 (pid $pid) does not end"
  fi
  rm -f "$run/$1.pid"
}

# install PACKAGE...: from Debian or Ubuntu.
install() {
  local policy=/usr/sbin/policy-rc.d ok=1
  if [[ $EUID != 0 ]] || ! command -v apt-get >/dev/null; then die "missing: $*; please install"; fi
  say "apt-get install $*"
  # Servers' packages would start services on their own ports; this file forbids it.
  if [[ -e $policy ]]; then policy=''; else printf '#!/bin/sh\nexit 101\n' >"$policy"; chmod 755 "$policy"; fi
  { timeout 300 apt-get -q -o DPkg::Lock::Timeout=120 update &&
    DEBIAN_FRONTEND=noninteractive timeout 300 \
      apt-get -q -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$@"
  } >"$log/apt.log" 2>&1 </dev/null 9>&- || ok=''
  [[ -z $policy ]] || rm -f "$policy"
  [[ -n $ok ]] || { tail -n 5 "$log/apt.log" >&2; die "apt-get failed, see $log/apt.log"; }
}

# base_python: the first that fits. A python3 on the path may be too old, a version
# manager's shim that runs nothing, or a Debian one without ensurepip.
base_python() {
  local candidate
  local candidates=(python3 python3.{11..14} /usr/bin/python3)
  if [[ -n ${REAL_PYTHON-} ]]; then candidates=("$REAL_PYTHON"); fi
  for candidate in "${candidates[@]}"; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s' "$candidate"
      return
    fi
  done
  return 1
}

# install_pins VENV FILE: makes VENV, unless it is there, and installs what FILE pins and VENV lacks. Several scripts may
# share a VENV. FILE names everything that its packages need.
install_pins() {
  local venv=$1 pins=$2 base one missing
  if ! "$venv/bin/python" -c '' 2>/dev/null; then rm -rf -- "$venv"; fi
  missing=$(comm -23 <(grep '==' "$pins" | sort) <(sort "$venv/installed.txt" 2>/dev/null))
  [[ -n $missing ]] || return 0
  while IFS= read -r one; do
    if grep -qs "^${one%%==*}==" "$venv/installed.txt"; then   # in another version, and who knows who needs that
      rm -rf -- "$venv"
      missing=$(grep '==' "$pins")
      break
    fi
  done <<<"$missing"
  if [[ ! -d $venv ]]; then
    if ! base=$(base_python); then
      [[ -n ${REAL_PYTHON-} ]] || install python3 python3-venv
      base=$(base_python) || die "no Python from 3.11 on with venv and ensurepip; name one in REAL_PYTHON"
    fi
    "$base" -m venv "$venv" 9>&-
  fi
  printf '%s\n' "$missing" >"$log/pip.txt"
  say "installing $(wc -l <"$log/pip.txt") packages for $("$venv/bin/python" --version) in $venv"
  # Wheels only: no compiler is needed, and no package's code runs. Two that are all Python have none.
  timeout 1800 "$venv/bin/python" -m pip --disable-pip-version-check --no-cache-dir --quiet install --no-deps \
    --only-binary :all: --no-binary ovs,simplegeneric -r "$log/pip.txt" >"$log/pip.log" 2>&1 </dev/null 9>&- ||
    { tail -n 10 "$log/pip.log" >&2; die "pip failed, see $log/pip.log"; }
  cat "$log/pip.txt" >>"$venv/installed.txt"
}

# forget_data NAME: removes the data directory whose path run/NAME.dir holds; its servers must have ended.
forget_data() {
  local data
  [[ -f $run/$1.dir ]] || return 0
  data=$(<"$run/$1.dir")
  # The name is checked so that no damaged file can make this remove anything else.
  if [[ $data == /*/bench-$1.?????? && $data != *..* ]]; then rm -rf -- "$data"; fi
  rm -f "$run/$1.dir"
}

# listening PORT: true if something of this machine listens there.
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# as_nobody COMMAND...: with fewer rights, if we have them, and its home in $data; PostgreSQL insists.
as_nobody() {
  if [[ $EUID == 0 ]]; then
    exec setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME="$data" TMPDIR="$data" "$@"
  else
    exec env HOME="$data" TMPDIR="$data" "$@"
  fi
}

# install_node_modules NAME: what the lock file of tests/NAME pins, from npm. Prints the folder of the modules.
install_node_modules() {
  local code=$repo/tests/$1 node=$REAL_DIR/$1-node missing=()
  command -v node >/dev/null || missing+=(nodejs)
  command -v npm >/dev/null || missing+=(npm)
  if ((${#missing[@]})); then install "${missing[@]}" >&2; fi
  if ! cmp -s "$code/package-lock.json" "$node/installed.json"; then
    say "installing the packages of tests/$1 for node $(node --version) in $node"
    rm -rf -- "$node"
    mkdir "$node"
    cp "$code"/package{,-lock}.json "$node"
    # No package's code runs.
    (cd "$node" && timeout 600 npm ci --ignore-scripts --no-audit --no-fund --omit=dev) \
      >"$log/$1-npm.log" 2>&1 </dev/null 9>&- || { tail -n 10 "$log/$1-npm.log" >&2; die 'npm failed'; }
    cp "$code/package-lock.json" "$node/installed.json"
  fi
  printf '%s\n' "$node/node_modules"
}
