#!/usr/bin/env bash
# Installs the Debian packages that the named uses need: build, unit, test, bench, fuzz. Does nothing when all are there.
# Only the machine's own package sources are used.
set -euo pipefail

build="build-essential meson ninja-build pkg-config libssl-dev librocksdb-dev libisal-dev libexpat1-dev libjansson-dev"
unit="libcmocka-dev python3 clang-format"
test="$unit clang libclang-rt-14-dev python3-venv curl ca-certificates openssl s3cmd rclone restic s3fs fuse3 procps util-linux e2fsprogs xfsprogs mount"
bench="python3 python3-venv wrk openssl"
fuzz="$unit clang llvm libclang-rt-14-dev"

wanted=""
for use in "$@"; do
    case "$use" in
    build | unit | test | bench | fuzz) wanted="$wanted ${!use}" ;;
    *) echo "deps.sh: unknown use '$use' (build, unit, test, bench, fuzz)" >&2; exit 2 ;;
    esac
done

missing=""
for package in $(tr ' ' '\n' <<<"$wanted" | sort -u); do
    if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
        missing="$missing $package"
    fi
done
[ -n "$missing" ] || exit 0

run=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "deps.sh: install these as root:$missing" >&2; exit 1; }
    run=sudo
fi
export DEBIAN_FRONTEND=noninteractive
echo "Installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { $run apt-get install -y --no-install-recommends $missing >"$log" 2>&1; }
if ! install; then
    $run apt-get update -q >/dev/null && install || { tail -n 20 "$log" >&2; exit 1; }
fi
