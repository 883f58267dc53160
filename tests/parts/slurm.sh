#!/usr/bin/env bash
# A real Slurm on this one machine, for tests: a controller and virtual nodes, without systemd, on loopback only.
#
#   slurm.sh keep DIR NODES PORT PREFIX [NET]   brings a cluster up, prints "up", and takes it down when its standard input
#                                               ends: so it never outlives the test that started it, however that ends
#   slurm.sh up DIR NODES PORT PREFIX [NET]     only brings it up
#   slurm.sh down DIR                           takes it down, with every job of it, and removes DIR
#   slurm.sh cut|heal NODE                      its link goes down, comes up again; for a cluster with a network
#
# With NET (10.88.1, say) each node has a network of its own, NET.1, NET.2, …, on a bridge to the controller; root only.
# Each node PREFIX1, PREFIX2, … is a slurmd of its own with 4 CPUs and 2 GPUs (device files without a driver). Partitions:
# `gpu` (default; up to an hour), `short` (up to two minutes), and `spare` and `sparer`, whose jobs those of `urgent` put back into
# the queue, or end. Slurm's programs for it are in DIR/bin; srun has a stand-in for pyxis (pyxis.c, which needs cc). Nothing is read from or
# written to /etc. CONFIGURATION holds further lines for slurm.conf. Several clusters can be up side by side. As root the packages are installed when they are missing.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
die() { echo "slurm.sh: $*" >&2; exit 1; }

install_packages() {
  local missing=0 program
  for program in slurmctld slurmd sbatch munged; do command -v "$program" >/dev/null || missing=1; done
  (( missing )) || return 0
  [ "$(id -u)" = 0 ] || die 'not here, and not root to install them: slurmctld slurmd slurm-client munge'
  # The services that the packages would start have nothing to do with us.
  local made=0
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; made=1
  fi
  get() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
      -o DPkg::Lock::Timeout=300 slurmctld slurmd slurm-client munge
  }
  local log; log=$(mktemp)
  get >"$log" 2>&1 || { apt-get update -q >>"$log" 2>&1 && get >>"$log" 2>&1; } || { tail -n 20 "$log" >&2; die 'apt-get failed'; }
  rm -f "$log"
  (( made )) && rm -f /usr/sbin/policy-rc.d
  return 0
}

configure() {
  local dir=$1 nodes=$2 port=$3 prefix=$4 net=${5:-} track=linuxproc
  local cgroup=/sys/fs/cgroup
  # With a writable cgroup tree also daemonised processes of a job are found and ended.
  if [ -w $cgroup/freezer/cgroup.procs ] && mkdir "$cgroup/freezer/test.$$" 2>/dev/null; then rmdir "$cgroup/freezer/test.$$"; track=cgroup; fi
  for g in 0 1; do
    [ -e "$dir/dev/nvidia$g" ] || mknod -m 666 "$dir/dev/nvidia$g" c 240 "$g" 2>/dev/null || ln -sf /dev/null "$dir/dev/nvidia$g"
  done
  local list="$prefix[1-$nodes]" ports="[$((port + 10))-$((port + 9 + nodes))]"
  if (( nodes == 1 )); then list=${prefix}1 ports=$((port + 10)); fi
  local controller=127.0.0.1 where="NodeAddr=127.0.0.1 Port=$ports"
  local bind=CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
  # The controller must be heard on the bridge then, too.
  if [ -n "$net" ]; then bind='' controller=$net.254 where="NodeAddr=$net.[1-$nodes] Port=$((port + 10))"; fi
  local me; me=$(id -un)
  cat >"$dir/etc/slurm.conf" <<CONF
ClusterName=lab
SlurmctldHost=$(hostname -s)($controller)
SlurmctldPort=$port
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket
$bind
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
TmpFS=$dir/tmp/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
ProctrackType=proctrack/$track
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=64
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0,sched_min_interval=100000
SlurmctldTimeout=10
SlurmdTimeout=20
KillWait=3
UnkillableStepTimeout=20
MinJobAge=3600
ReturnToService=2
BatchStartTimeout=60
CompleteWait=0
MessageTimeout=10
JobCompType=jobcomp/filetxt
JobCompLoc=$dir/log/jobs
AccountingStorageType=accounting_storage/none
NodeName=$list NodeHostname=$(hostname -s) $where CPUs=4 RealMemory=4096 Gres=gpu:h100:2 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=gpu Default=YES Nodes=ALL DefaultTime=00:10:00 MaxTime=01:00:00 PriorityTier=2 PreemptMode=OFF State=UP
PartitionName=short Nodes=ALL DefaultTime=00:01:00 MaxTime=00:02:00 PriorityTier=2 PreemptMode=OFF State=UP
PartitionName=spare Nodes=ALL DefaultTime=00:10:00 MaxTime=01:00:00 PriorityTier=1 PreemptMode=REQUEUE State=UP
PartitionName=sparer Nodes=ALL DefaultTime=00:10:00 MaxTime=01:00:00 PriorityTier=1 PreemptMode=CANCEL State=UP
PartitionName=urgent Nodes=ALL DefaultTime=00:10:00 MaxTime=01:00:00 PriorityTier=9 PreemptMode=OFF State=UP
PlugStackConfig=$dir/etc/plugstack.conf
${CONFIGURATION:-}
CONF
  local a b c version; version=$(slurmd -V | awk '{print $2}'); IFS=. read -r a b c <<<"$version"
  cc -shared -fPIC -O1 -DSLURM_VER="$(printf '0x%02x%02x%02x' "$((10#$a))" "$((10#$b))" "$((10#${c%%[!0-9]*}))")" \
    -o "$dir/etc/pyxis.so" "$(dirname "$(readlink -f "$0")")/pyxis.c" || die 'pyxis.c did not compile'
  echo "required $dir/etc/pyxis.so" >"$dir/etc/plugstack.conf"
  echo "NodeName=$list Name=gpu Type=h100 File=$dir/dev/nvidia[0-1]" >"$dir/etc/gres.conf"
  printf '%s\n' CgroupPlugin=cgroup/v1 CgroupMountpoint=$cgroup ConstrainCores=no ConstrainRAMSpace=no ConstrainDevices=no >"$dir/etc/cgroup.conf"
  for program in sbatch srun squeue scancel sinfo scontrol; do
    # Each call leaves a line, so that a test can count them.
    printf '#!/bin/sh\necho "$(date +%%s.%%N) %s $*" >>%s\nSLURM_CONF=%s exec /usr/bin/%s "$@"\n' \
      "$program" "'$dir/log/calls'" "'$dir/etc/slurm.conf'" "$program" >"$dir/bin/$program"
  done
  chmod 755 "$dir"/bin/*
}

up() {
  local dir=$1 nodes=$2 port=$3 prefix=$4 net=${5:-}
  exec 9>"${TMPDIR:-/tmp}/regatta-slurm-packages.lock"
  flock 9; install_packages; flock -u 9; exec 9>&-
  mkdir -p "$dir"/{etc,run,log,state,dev,bin,spool,tmp}
  chmod 755 "$dir" "$dir"/*
  dir=$(cd "$dir" && pwd -P)
  configure "$dir" "$nodes" "$port" "$prefix" "$net"
  [ -z "$net" ] || connect "$dir" "$nodes" "$prefix" "$net"
  export SLURM_CONF=$dir/etc/slurm.conf REGATTA_TEST_SLURM=$dir
  quiet() { setsid "$@" </dev/null >>"$dir/log/start" 2>&1; }
  (umask 077; head -c 128 /dev/urandom >"$dir/etc/munge.key")
  quiet munged --force --key-file="$dir/etc/munge.key" --socket="$dir/run/munge.socket" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/run/munge.seed" --num-threads=2 || die "munged: $(tail -n 3 "$dir/log/start")"
  quiet slurmctld || die "slurmctld: $(tail -n 5 "$dir/log/start" "$dir/log/slurmctld.log")"
  local i
  for ((i = 1; i <= nodes; i++)); do node "$dir" "$prefix$i"; done
  local ready=0 limit=$((SECONDS + 90))
  while (( SECONDS < limit )); do
    ready=$(timeout 5 /usr/bin/sinfo -h -N -p gpu -t idle -o %N 2>/dev/null | sort -u | wc -l) || ready=0
    [ "$ready" = "$nodes" ] && return 0
    sleep 0.1
  done
  tail -n 5 "$dir"/log/*.log >&2
  die "only $ready of $nodes nodes came up"
}

connect() { # a bridge, and for each node a network of its own with a link to it
  local dir=$1 nodes=$2 prefix=$3 net=$4 i
  echo "$prefix" >"$dir/etc/bridge"
  ip link add "$prefix" type bridge; ip addr add "$net.254/24" dev "$prefix"; ip link set "$prefix" up
  for ((i = 1; i <= nodes; i++)); do
    ip netns add "$prefix$i"
    ip link add "$prefix$i" type veth peer name eth0 netns "$prefix$i"
    ip link set "$prefix$i" master "$prefix" up
    ip -n "$prefix$i" addr add "$net.$i/24" dev eth0
    ip -n "$prefix$i" link set lo up; ip -n "$prefix$i" link set eth0 up
    echo "$prefix$i" >>"$dir/etc/links"
  done
}

node() { # dir name: starts the daemon of one node
  mkdir -p "$1/spool/$2" "$1/tmp/$2"
  local inside=()
  # `ip netns exec` would hide the cgroups.
  [ -e "/run/netns/$2" ] && inside=(nsenter "--net=/run/netns/$2")
  SLURM_CONF=$1/etc/slurm.conf REGATTA_TEST_SLURM=$1 setsid "${inside[@]}" slurmd -N "$2" </dev/null >>"$1/log/start" 2>&1 || die "slurmd $2: $(tail -n 5 "$1/log/start")"
}

ours() { # dir: processes that carry this cluster in their environment, the keeper and what it runs apart
  local p
  for p in /proc/[0-9]*; do
    p=${p#/proc/}
    [ "$p" = $$ ] || [ "$p" = "$BASHPID" ] || [ "$p" = "$PPID" ] && continue
    { tr '\0' '\n' <"/proc/$p/environ"; } 2>/dev/null | grep -qxF -e "REGATTA_TEST_SLURM=$1" -e "SLURM_CONF=$1/etc/slurm.conf" && echo "$p"
  done
}

down() {
  set +e
  local dir=$1 try pids
  [ -d "$dir" ] || return 0
  dir=$(cd "$dir" && pwd -P)
  [ -e "$dir/etc/slurm.conf" ] || die "$dir holds no cluster of ours"
  unset SLURM_CONF REGATTA_TEST_SLURM
  for try in 1 2 3 4 5; do
    pids=$(ours "$dir")
    [ -z "$pids" ] && break
    # Steps and what they run first die with this, stopped ones too; nothing of it is worth a farewell.
    kill -KILL $pids 2>/dev/null || true
    sleep 0.1
  done
  local n group
  for n in "$dir"/spool/*/; do
    for group in /sys/fs/cgroup/*/slurm_"$(basename "$n")"; do
      [ -d "$group" ] && find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
    done
  done
  if [ -e "$dir/etc/bridge" ]; then
    while read -r n; do ip netns del "$n" 2>/dev/null; ip link del "$n" 2>/dev/null; done <"$dir/etc/links"
    ip link del "$(cat "$dir/etc/bridge")" 2>/dev/null
  fi
  # Who has just been killed may still be on the way out.
  for try in 1 2 3 4 5; do rm -rf "$dir" && break; sleep 0.2; done
}

case ${1:-} in
  up) shift; up "$@";;
  down) down "$2";;
  node) node "$2" "$3";;
  cut) ip link set "$2" down;;
  heal) ip link set "$2" up;;
  keep)
    shift
    # Not `$1`: a function that ends the script has arguments of its own.
    kept=$1
    trap 'down "$kept"' EXIT
    up "$@"
    echo up
    cat >/dev/null;;
  *) sed -n '2,16p' "$0"; exit 2;;
esac
