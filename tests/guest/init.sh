#!/bin/busybox sh
# shellcheck shell=dash
# The guest's first process: mounts what every Linux has, waits for CPUs that are plugged in later, runs /command,
# reports its exit code and switches the machine off.
# Serial ports: 0 the kernel's messages, 1 and 2 the command's output and errors, 3 what we tell the host.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb

mkdir -p /dev /proc /sys /tmp /run /root /guest
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
ln -s /proc/self/fd /dev/fd
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t devpts devpts /dev/pts
for folder in /dev/shm /run; do mount -t tmpfs tmpfs "$folder"; done
chmod 1777 /tmp # no file system of its own: what was brought along may lie there
hostname guest
ip link set lo up
raw() { for port in 1 2 3; do stty -F "/dev/ttyS$port" raw -echo; done; }
raw

wanted=$(sed -n 's/.*zf_cpus=\([0-9]*\).*/\1/p' /proc/cmdline)
present() { find /sys/devices/system/cpu -maxdepth 1 -name "cpu[0-9]*" | wc -l; }
seen=$(present)
echo ready >/dev/ttyS3
tries=0
while [ "$seen" -lt "$wanted" ] && [ "$tries" -lt 300 ]; do
  sleep 0.1
  tries=$((tries + 1))
  now=$(present)
  [ "$now" = "$seen" ] || echo "present $now" >/dev/ttyS3
  seen=$now
done
for online in /sys/devices/system/cpu/cpu*/online; do
  [ "$(cat "$online")" = 1 ] || echo 1 >"$online"
done

cd /guest || exit
sh /command </dev/null >/dev/ttyS1 2>/dev/ttyS2
code=$?
# The host ends this machine when both marks and the code have arrived: on a busy host a power-off can come before the
# last bytes, and a line can be lost, or stay until another is written.
for _ in $(seq 60); do
  for port in 1 2; do echo "end of output" >"/dev/ttyS$port"; done
  echo "exit $code" >/dev/ttyS3
  sleep 1
done
poweroff -f
