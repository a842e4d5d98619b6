#!/usr/bin/env bash
# Makes this process's file system its own, then becomes the command: private /run, /dev, /etc and /opt.
# usage: isolate.sh FOLDER COMMAND...     (FOLDER/opt and FOLDER/etc are copied over ours)
#
# For `unshare --mount --pid --fork`: all of this ends with the last process.
set -euo pipefail
[[ $$ -eq 1 ]] || { echo "isolate.sh: only as the first process of its own namespaces" >&2 && exit 1; }

given=$1
shift
ip link set lo up
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/private/{dev/pts,dev/shm,etc,opt}
chmod 1777 /run/private/dev/shm

for device in null zero full random urandom tty; do
  : >"/run/private/dev/$device"
  mount --bind "/dev/$device" "/run/private/dev/$device"
done
mount --rbind /dev/pts /run/private/dev/pts
ln -s pts/ptmx /run/private/dev/ptmx
ln -s /proc/self/fd /run/private/dev/fd
cp -a /etc/. /run/private/etc/
for folder in etc opt; do
  [[ ! -d $given/$folder ]] || cp -r "$given/$folder/." "/run/private/$folder/"
done
for folder in dev etc opt; do mount --rbind "/run/private/$folder" "/$folder"; done
exec bash "$@"
