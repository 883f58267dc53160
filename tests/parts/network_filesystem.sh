#!/usr/bin/env bash
# A real filesystem of the network, for one test: a GlusterFS server on this machine, and two mounts of its folder. Each mount is a
# client of its own, as two machines have. Root only.
#
#   network_filesystem.sh keep DIR PORT    mounts DIR/one and DIR/two, prints "up", and takes everything away when its standard input
#                                          ends: so it never outlives the test that started it, however that ends
#   network_filesystem.sh serve DIR PORT   starts the server again after it was killed
#
# DIR/server.pid has the server's process id. Server and clients are configured by files in DIR alone: there is no management daemon, and
# nothing is read from or written to /etc/glusterfs and /var/lib/glusterd.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
die() { echo "network_filesystem.sh: $*" >&2; exit 1; }

server_volume() { # dir port
  cat <<VOLUME
volume disk
  type storage/posix
  option directory $1/disk
end-volume
volume locks
  type features/locks
  subvolumes disk
end-volume
volume project
  type performance/io-threads
  subvolumes locks
end-volume
volume server
  type protocol/server
  option transport-type tcp
  option transport.address-family inet
  option transport.socket.bind-address 127.0.0.1
  option transport.socket.listen-port $2
  option auth.addr.project.allow *
  subvolumes project
end-volume
VOLUME
}

# A server that is silent for longer than the ping timeout counts as gone.
client_volume() { # port
  cat <<VOLUME
volume connection
  type protocol/client
  option transport-type tcp
  option transport.address-family inet
  option remote-host 127.0.0.1
  option remote-port $1
  option remote-subvolume project
  option ping-timeout 20
end-volume
volume project
  type performance/write-behind
  subvolumes connection
end-volume
VOLUME
}

serve() { # dir port
  local dir=$1 port=$2
  setsid glusterfsd -N -f "$dir/server.vol" -l "$dir/server.log" </dev/null >"$dir/server.out" 2>&1 &
  echo "$!" >"$dir/server.pid"
  disown
  for _ in $(seq 500); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return 0
    sleep 0.02
  done
  die "the server does not listen: $(tail -n 5 "$dir/server.log")"
}

# The clients keep nothing: what the server does not answer is an error at once.
mount_client() { # dir name
  glusterfs -f "$1/client.vol" --attribute-timeout=0 --entry-timeout=0 --negative-timeout=0 \
    -l "$1/$2.log" -p "$1/$2.pid" "$1/$2" </dev/null >"$1/$2.out" 2>&1 || die "no mount: $(tail -n 5 "$1/$2.log")"
  # Its first operation waits until it is connected.
  ls "$1/$2" >/dev/null || die "the mount does not answer: $(tail -n 5 "$1/$2.log")"
}

down() { # dir
  local dir=$1 name
  for name in one two; do
    umount -l "$dir/$name" 2>/dev/null || true
    kill -KILL "$(cat "$dir/$name.pid" 2>/dev/null)" 2>/dev/null || true
  done
  kill -KILL "$(cat "$dir/server.pid" 2>/dev/null)" 2>/dev/null || true
  # Should a mount have stayed, what is on it is not removed through it.
  rm -rf --one-file-system "$dir"
}

keep() { # dir port
  local dir=$1 port=$2
  [ "$(id -u)" = 0 ] || die 'needs root'
  command -v glusterfsd >/dev/null && command -v glusterfs >/dev/null ||
    die 'GlusterFS is not installed: apt-get install glusterfs-server glusterfs-client'
  mkdir -p "$dir/disk" "$dir/one" "$dir/two"
  kept=$dir
  trap 'down "$kept"' EXIT
  server_volume "$dir" "$port" >"$dir/server.vol"
  client_volume "$port" >"$dir/client.vol"
  serve "$dir" "$port"
  mount_client "$dir" one
  mount_client "$dir" two
  echo up
  # Closes with the test.
  cat >/dev/null
}

case ${1:-} in
  keep | serve) "$1" "$2" "$3" ;;
  *) die 'usage: keep|serve DIR PORT' ;;
esac
