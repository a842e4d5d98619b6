#!/usr/bin/env bash
# Fetches Debian's kernel and busybox for AArch64 guests. Nothing is installed.
# usage: aarch64.sh FOLDER        (they go to FOLDER/vmlinuz and FOLDER/busybox; nothing is done if they are there)
set -euo pipefail

folder=$(realpath -m -- "$1")
[[ ! -s $folder/vmlinuz || ! -s $folder/busybox ]] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$folder" "$work"/{parts,lists/partial,cache}
cd "$work"
printf 'Types: deb\nURIs: http://deb.debian.org/debian\nSuites: bookworm\nComponents: main\nSigned-By: %s\n' \
  /usr/share/keyrings/debian-archive-keyring.gpg >parts/debian.sources
# apt has lists of its own here, for the other architecture.
options=(-q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/parts" -o Dir::State::Lists="$work/lists"
  -o Dir::State::status=/dev/null -o Dir::Cache="$work/cache" -o APT::Architecture=arm64 -o APT::Architectures=arm64
  -o APT::Sandbox::User=root)
apt-get "${options[@]}" update >&2
package=$(apt-cache "${options[@]}" depends linux-image-cloud-arm64 |
  awk '/Depends: linux-image-[0-9]/ { print $2; exit }')
[[ -n $package ]] || { echo "apt knows no linux-image-cloud-arm64" >&2 && exit 1; }
apt-get "${options[@]}" download "$package" busybox-static >&2
dpkg --fsys-tarfile linux-image*.deb | tar x --wildcards './boot/vmlinuz-*'
dpkg --fsys-tarfile busybox*.deb | tar x ./bin/busybox
mv bin/busybox "$folder/"
mv boot/vmlinuz-* "$folder/vmlinuz"
