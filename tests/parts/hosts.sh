#!/usr/bin/env bash
# Several machines on this one, for tests: each is a network, process, mount and host name space of its own, with a real sshd as
# its first process. Root only.
#
#   hosts.sh keep DIR PREFIX N    brings N hosts PREFIX1, PREFIX2, … up, prints "up", and takes them down when its standard
#                                 input ends: so they never outlive the test that started them, however that ends
#   hosts.sh cut|heal DIR HOST    its link goes down, comes up again: no packet says so to the other side
#   hosts.sh crash|boot DIR HOST  power off: its link and all its processes are gone at once; it starts again
#   hosts.sh hide DIR HOST PATH   an empty folder lies over PATH on it
#   hosts.sh pids DIR HOST        its processes, as they are seen from here
#
# They see the files of this machine, as if all of them were on a network filesystem; /dev/shm is their own. DIR/bin/ssh reaches
# them by their names and writes each of its calls to DIR/calls, a line each. Nothing is read from or written to /etc and ~/.ssh. Several
# labs can be up side by side. The packages are installed when they are missing.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
die() { echo "hosts.sh: $*" >&2; exit 1; }

install_packages() {
  command -v sshd >/dev/null && command -v ssh >/dev/null && command -v ip >/dev/null && return 0
  [ "$(id -u)" = 0 ] || die 'not here, and not root to install them: openssh-server openssh-client iproute2'
  # The service that the package would start has nothing to do with us.
  local made=0
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; made=1
  fi
  get() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
      -o DPkg::Lock::Timeout=300 openssh-server openssh-client iproute2
  }
  local log; log=$(mktemp)
  get >"$log" 2>&1 || { apt-get update -q >>"$log" 2>&1 && get >>"$log" 2>&1; } || { tail -n 20 "$log" >&2; die 'apt-get failed'; }
  rm -f "$log"
  (( made )) && rm -f /usr/sbin/policy-rc.d
  return 0
}

# A bridge with a network that nobody here has yet.
network() {
  local dir=$1 prefix=$2 net try
  for try in $(seq 50); do
    net=10.$((180 + RANDOM % 70)).$((RANDOM % 250))
    ip -4 -o addr | grep -qF " $net." && continue
    ip link add "$prefix" type bridge || die "no bridge $prefix"
    ip addr add "$net.254/24" dev "$prefix"; ip link set "$prefix" up
    echo "$net" >"$dir/net"
    return 0
  done
  die 'no network is free'
}

wire() { # dir prefix number
  local host=$2$3
  ip netns add "$host"
  ip link add "$host" type veth peer name eth0 netns "$host"
  ip link set "$host" master "$2" up
  ip -n "$host" addr add "$(cat "$1/net").$3/24" dev eth0
  ip -n "$host" link set lo up; ip -n "$host" link set eth0 up
}

boot() { # dir host
  local dir=$1 host=$2 outer inner
  ip link set "$host" up
  cat >"$dir/$host.start" <<START
set -e
mount --make-rprivate /
hostname $host
mount -t proc proc /proc
mount -t tmpfs tmpfs /dev/shm
exec $(command -v sshd) -D -e -f $dir/sshd_config
START
  setsid nsenter --net="/run/netns/$host" unshare --mount --uts --ipc --pid --fork --kill-child \
    bash "$dir/$host.start" </dev/null >>"$dir/$host.log" 2>&1 &
  outer=$!
  for _ in $(seq 500); do
    inner=$(cut -d' ' -f1 "/proc/$outer/task/$outer/children" 2>/dev/null) || true
    if [ -n "$inner" ] && grep -q 'Server listening' "$dir/$host.log" && [ "$(cat "/proc/$inner/comm" 2>/dev/null)" = sshd ]; then
      echo "$inner" >"$dir/$host.pid"; return 0
    fi
    sleep 0.02
  done
  die "$host did not start: $(tail -n 5 "$dir/$host.log")"
}

up() {
  local dir=$1 prefix=$2 hosts=$3 i
  [ "$(id -u)" = 0 ] || die 'needs root'
  exec 9>"${TMPDIR:-/tmp}/regatta-hosts-packages.lock"
  flock 9; install_packages; flock -u 9; exec 9>&-
  mkdir -p "$dir/bin" /run/sshd; chmod 755 "$dir"
  ssh-keygen -q -t ed25519 -N '' -f "$dir/key" -C regatta-test
  ssh-keygen -q -t ed25519 -N '' -f "$dir/hostkey" -C regatta-test
  cat >"$dir/sshd_config" <<CONF
HostKey $dir/hostkey
AuthorizedKeysFile $dir/key.pub
PidFile none
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
CONF
  network "$dir" "$prefix"
  : >"$dir/links"
  for ((i = 1; i <= hosts; i++)); do
    echo "$prefix$i" >>"$dir/links"
    wire "$dir" "$prefix" "$i"
    { echo "Host $prefix$i"; echo "  HostName $(cat "$dir/net").$i"; } >>"$dir/ssh_config"
    echo "$(cat "$dir/net").$i $(cut -d' ' -f1,2 "$dir/hostkey.pub")" >>"$dir/known_hosts"
  done
  cat >>"$dir/ssh_config" <<CONF
Host *
  User root
  IdentityFile $dir/key
  IdentitiesOnly yes
  StrictHostKeyChecking yes
  UserKnownHostsFile $dir/known_hosts
  GlobalKnownHostsFile none
CONF
  printf '#!/bin/sh\nprintf "%%s\\n" "$*" >>%s\nexec %s -F %s "$@"\n' "'$dir/calls'" "$(command -v ssh)" "'$dir/ssh_config'" >"$dir/bin/ssh"
  chmod 755 "$dir/bin/ssh"
  for ((i = 1; i <= hosts; i++)); do boot "$dir" "$prefix$i"; done
}

kill_all() { # dir host: its first process, and with that all of them
  local pid; pid=$(cat "$1/$2.pid" 2>/dev/null) || return 0
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = sshd ] && kill -KILL "$pid" 2>/dev/null
  for _ in $(seq 100); do [ -d "/proc/$pid" ] || break; sleep 0.02; done
  rm -f "$1/$2.pid"
}

down() {
  set +e
  local dir=$1 prefix=$2 host
  while read -r host; do
    kill_all "$dir" "$host"
    ip netns del "$host" 2>/dev/null; ip link del "$host" 2>/dev/null
  done <"$dir/links"
  ip link del "$prefix" 2>/dev/null
  rm -rf --one-file-system "$dir"
}

case ${1:-} in
  keep)
    shift
    # Not `$1`: a function that ends the script has arguments of its own.
    kept=("$1" "$2")
    trap 'down "${kept[@]}"' EXIT
    up "$@"
    echo up
    cat >/dev/null;;
  cut) ip link set "$3" down;;
  heal) ip link set "$3" up;;
  crash) ip link set "$3" down; kill_all "$2" "$3";;
  boot) boot "$2" "$3";;
  hide)
    # What sshd reads stays where it is.
    nsenter -t "$(cat "$2/$3.pid")" -m sh -ec 'mount --bind "$1" /mnt; mount -t tmpfs tmpfs "$2"; mkdir -p "$1"; mount --move /mnt "$1"' - "$2" "$4";;
  pids)
    space=$(readlink "/proc/$(cat "$2/$3.pid")/ns/pid")
    for p in /proc/[0-9]*; do
      [ "$(readlink "$p/ns/pid" 2>/dev/null)" = "$space" ] && echo "${p#/proc/} $(tr '\0' ' ' <"$p/cmdline" 2>/dev/null)"
    done
    true;;
  *) sed -n '2,17p' "$0"; exit 2;;
esac
