#!/usr/bin/env bash
# Builds one flavour into its directory: build (release), build-test (failpoints, unit tests), build-asan (the same with
# sanitizers), build-tsan, build-clang (clang, warnings are errors), build-fuzz (libFuzzer targets).
set -euo pipefail
cd "$(dirname "$0")/.."

flavour=${1:?usage: build.sh FLAVOUR [TARGET...]}
shift
options=()
compiler=gcc
case "$flavour" in
build) options=(--buildtype=release -Ddebug=true -Dtests=false) ;;
build-test) options=(-Dfailpoints=true) ;;
build-asan) options=(-Dfailpoints=true -Db_sanitize=address,undefined) ;;
build-tsan) options=(-Dfailpoints=true -Db_sanitize=thread) ;;
build-clang) compiler=clang; options=(-Dfailpoints=true) ;;
build-fuzz) compiler=clang; options=(-Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false) ;;
build-coverage) compiler=clang; options=(-Dfuzz=true -Dcoverage_map=true -Db_lundef=false) ;;
*) echo "build.sh: unknown flavour '$flavour'" >&2; exit 2 ;;
esac

if [ ! -f "$flavour/build.ninja" ]; then
    CC=$compiler meson setup "$flavour" "${options[@]}" >"/tmp/hayloft-meson-$$.log" 2>&1 ||
        { tail -n 30 "/tmp/hayloft-meson-$$.log" >&2; exit 1; }
    rm -f "/tmp/hayloft-meson-$$.log"
fi
ninja -C "$flavour" --quiet "$@"
if [ -f "$flavour/src/cmd/hayloft" ]; then
    ln -sf src/cmd/hayloft "$flavour/hayloft"
fi
