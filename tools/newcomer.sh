#!/usr/bin/env bash
# What a newcomer does, in a clean Debian 12: makes a root with debootstrap that has git, make and ca-certificates and nothing
# else, clones this repository there, types `make run` and then what that prints, and with --test also `make test`.
# Prints what the newcomer sees and how long each step took. Needs root. The packages come from this machine's own sources.
#
#   tools/newcomer.sh [--test] [--keep] [DIR]      DIR: default /var/tmp/hayloft-newcomer; removed unless --keep
set -euo pipefail
cd "$(dirname "$0")/.."

with_test=no keep=no root=/var/tmp/hayloft-newcomer
for argument in "$@"; do
    case "$argument" in
    --test) with_test=yes ;;
    --keep) keep=yes ;;
    /*) root=$argument ;;
    *) echo "newcomer.sh: unknown argument '$argument'" >&2; exit 2 ;;
    esac
done
[ "$(id -u)" = 0 ] || { echo "newcomer.sh: debootstrap and chroot need root" >&2; exit 1; }
command -v debootstrap >/dev/null || apt-get install -y -q debootstrap >/dev/null

# The first source of the distribution itself, in either form of apt's files.
mirror=$( { sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/debian*.sources
            sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*debian[^ ]*\) .*/\2/p' /etc/apt/sources.list; } 2>/dev/null | head -n 1 || true)
[ -n "$mirror" ] || { echo "newcomer.sh: /etc/apt names no mirror" >&2; exit 1; }

step() { # NAME COMMAND...: runs it, then says how long it took
    local name=$1 begin=$SECONDS
    shift
    "$@"
    echo "== $name: $((SECONDS - begin)) s"
}

inside() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 bash -c "$1"; }

clean_up() {
    [ -x "$root/root/hayloft/build/hayloft" ] && inside "cd /root/hayloft && make stop" >/dev/null 2>&1 || true
    for mounted in dev proc sys; do
        umount -l "$root/$mounted" 2>/dev/null || true
    done
    [ "$keep" = yes ] || rm -rf --one-file-system "$root"
}
trap clean_up EXIT

make_root() {
    if [ ! -x "$root/usr/bin/git" ]; then
        debootstrap --variant=minbase --include=git,make,ca-certificates bookworm "$root" "$mirror" >"$root.log" 2>&1 ||
            { tail -n 20 "$root.log" >&2; exit 1; }
        rm -f "$root.log"
    fi
    # What the installer of Debian writes and debootstrap does not.
    printf '127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n' >"$root/etc/hosts"
    # Security updates and the network as this machine has them.
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    rm -f "$root/etc/apt/sources.list"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian*.sources; do
        [ -f "$file" ] && grep -q "$mirror" "$file" && cp "$file" "$root/etc/apt/${file#/etc/apt/}"
    done
    cat /etc/ssl/certs/ca-certificates.crt >"$root/etc/ssl/certs/ca-certificates.crt" # with a proxy's, where there is one
    for file in /etc/apt/apt.conf.d/*; do
        if grep -qi proxy "$file"; then cp "$file" "$root/etc/apt/apt.conf.d/"; fi
    done
    [ -f /etc/pip.conf ] && cp /etc/pip.conf "$root/etc/pip.conf"
    for mounted in dev proc sys; do
        mountpoint -q "$root/$mounted" || mount --rbind --make-rslave "/$mounted" "$root/$mounted"
    done
}

clone() {
    rm -rf "$root/root/hayloft"
    git clone -q . "$root/root/hayloft"
}

mkdir -p "$root"
step "a clean Debian 12 with git and make" make_root
step "git clone" clone
echo "\$ make run"
step "make run" inside "cd /root/hayloft && make run"

# The pasted lines are those that `make run` prints between "Paste this:" and "Or without aws".
echo "\$ (the lines that it printed)"
step "the pasted lines" inside 'cd /root/hayloft && make -s run >/tmp/printed && sed -n "/^Paste this:/,/^Or without/p" /tmp/printed |
    sed "1d;\$d" >/tmp/paste && export DEBIAN_FRONTEND=noninteractive && bash -ex /tmp/paste 2>&1 | grep -Ev "^(Get:|Selecting|Preparing|Unpacking|Setting up|Fetched|Reading|Building|\(Reading|Processing)" | tail -n 25'
if [ "$with_test" = yes ]; then
    inside "cd /root/hayloft && make stop"
    echo "\$ make test"
    step "make test" inside "cd /root/hayloft && make test"
fi
