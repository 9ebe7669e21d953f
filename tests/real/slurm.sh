#!/usr/bin/env bash
#
# Brings up a Slurm from Debian's or Ubuntu's packages on 127.0.0.1: a controller and three nodes, which are processes of
# their own in REAL_DIR. No system service, nothing under /var or /etc, no port but its own. Needs root. Also installs
# Open MPI's mpirun.
#
#     eval "$(tests/real/slurm.sh)"      # tests/real/down.sh stops it again
#     srun --ntasks 3 bench run scenario.yaml
#     cargo test -- real_slurm
#
# Progress goes to standard error; standard output carries only `export SLURM_CONF=…` and BENCH_TEST_SLURM_CONF, on failure
# `false`. What runs already is reused.
#
# Settings (environment):
#   REAL_DIR            default .real in the repository
#   REAL_SLURM_PORT     default: the first free one from 26817 on; the three after it are for the nodes
#   REAL_TIMEOUT        seconds it may take to start, default 60

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

: "${REAL_TIMEOUT:=60}"
[[ ${REAL_SLURM_PORT-} =~ ^([1-9][0-9]{0,4})?$ ]] || die "REAL_SLURM_PORT=$REAL_SLURM_PORT is no port"
open_dir
PATH=$PATH:/usr/sbin:/sbin
nodes=(n1 n2 n3)
daemons=("${nodes[@]/#/slurmd-}" slurmctld munged)

missing=()
for pair in slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge mpirun:openmpi-bin; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
if ((${#missing[@]})); then install "${missing[@]}"; fi
[[ $EUID == 0 ]] || die "Slurm's daemons need root to run jobs"

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

give() {
  printf 'export SLURM_CONF=%q\n' "$dir/slurm.conf"
  printf 'export BENCH_TEST_SLURM_CONF=%q\n' "$dir/slurm.conf"
}

# idle: whether all nodes wait for work.
idle() { [[ $(SLURM_CONF=$dir/slurm.conf timeout 5 sinfo --noheader --format '%t %D' 2>/dev/null) == "idle ${#nodes[@]}" ]]; }

dir=$run/slurm
if recall slurmctld && SLURM_CONF=$dir/slurm.conf timeout 5 sinfo >/dev/null 2>&1; then
  say "slurm runs already on port $port"
  give
  exit 0
fi
for name in "${daemons[@]}"; do stop "$name"; done

if [[ -z ${REAL_SLURM_PORT-} ]]; then
  for ((REAL_SLURM_PORT = 26817; REAL_SLURM_PORT < 26917; REAL_SLURM_PORT += 4)); do
    for at in {0..3}; do ! listening $((REAL_SLURM_PORT + at)) || continue 2; done
    break
  done
fi

rm -rf -- "$dir"
mkdir -p "$dir/state" "$dir/spool"
# Munge is for messages of one machine here; its socket's name must be short.
dd if=/dev/urandom of="$dir/munge.key" bs=32 count=1 status=none
chmod 400 "$dir/munge.key"
host=$(hostname -s)
cat >"$dir/slurm.conf" <<END
ClusterName=bench
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$REAL_SLURM_PORT
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
CryptoType=crypto/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
SlurmdTimeout=30
KillWait=5
MinJobAge=300
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
NodeName=n[1-3] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((REAL_SLURM_PORT + 1))-$((REAL_SLURM_PORT + 3))] CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP
END

start munged 0 munged --foreground --force --socket="$dir/munge.socket" --key-file="$dir/munge.key" \
  --pid-file="$dir/munged.pid" --seed-file="$dir/munge.seed" --log-file="$log/munged.log" --num-threads=2
start slurmctld "$REAL_SLURM_PORT" slurmctld -D -c -f "$dir/slurm.conf"
number=0
for node in "${nodes[@]}"; do
  mkdir -p "$dir/spool/$node"
  start "slurmd-$node" $((REAL_SLURM_PORT + ++number)) slurmd -D -N "$node" -f "$dir/slurm.conf"
done

deadline=$((SECONDS + REAL_TIMEOUT))
until idle; do
  for name in "${daemons[@]}"; do
    if ! recall "$name" || ((SECONDS >= deadline)); then
      tail -n 15 "$log/$name.out" >&2
      for other in "${daemons[@]}"; do stop "$other"; done
      die "$name ended or did not answer within $REAL_TIMEOUT s (REAL_TIMEOUT); its log is $log/$name.out"
    fi
  done
  sleep 0.3
done
say "slurm started on port $REAL_SLURM_PORT"
give
