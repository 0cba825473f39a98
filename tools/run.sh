#!/usr/bin/env bash
# make run: a single node in the background with a bucket and a key; says what to paste next. "run.sh stop" ends it.
# HAYLOFT_HOME (default: var/ in this checkout) holds its data, log and process id; running it again is harmless.
set -euo pipefail
cd "$(dirname "$0")/.."

home=${HAYLOFT_HOME:-$PWD/var}
bucket=${HAYLOFT_DEFAULT_BUCKET:-demo}
port=${HAYLOFT_S3_PORT:-3900}
admin_port=${HAYLOFT_ADMIN_PORT:-3903}
pid_file=$home/hayloft.pid

running() { [ -f "$pid_file" ] && kill -0 "$(cat "$pid_file")" 2>/dev/null; }

if [ "${1:-}" = stop ]; then
    if running; then
        kill "$(cat "$pid_file")"
        while running; do sleep 0.1; done
        echo "stopped"
    else
        echo "not running"
    fi
    rm -f "$pid_file"
    exit 0
fi

umask 077
mkdir -p "$home/meta" "$home/data"
if [ ! -f "$home/key" ]; then
    printf 'GK%s %s\n' "$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')" \
        "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$home/key"
fi
read -r key secret <"$home/key"
cat >"$home/hayloft.toml" <<TOML
metadata_dir = "$home/meta"
data_dir = "$home/data"

[s3_api]
api_bind_addr = "[::]:$port"

[admin]
api_bind_addr = "127.0.0.1:$admin_port"
TOML

if ! running; then
    HAYLOFT_DEFAULT_ACCESS_KEY=$key HAYLOFT_DEFAULT_SECRET_KEY=$secret HAYLOFT_DEFAULT_BUCKET=$bucket \
        setsid nohup build/hayloft -c "$home/hayloft.toml" server --single-node --default-access-key \
        "--default-bucket=$bucket" >"$home/hayloft.log" 2>&1 </dev/null &
    echo $! >"$pid_file"
    for _ in $(seq 100); do
        build/hayloft -c "$home/hayloft.toml" status >/dev/null 2>&1 && break
        running || { echo "the store did not start:" >&2; tail -n 20 "$home/hayloft.log" >&2; exit 1; }
        sleep 0.1
    done
    build/hayloft -c "$home/hayloft.toml" status >/dev/null || { tail -n 20 "$home/hayloft.log" >&2; exit 1; }
fi

cat <<TEXT

Hayloft runs (process $(cat "$pid_file")); data in $home, log in $home/hayloft.log.
Paste this:

$(command -v aws >/dev/null || echo "apt-get install -y awscli")
export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_ACCESS_KEY_ID=$key AWS_SECRET_ACCESS_KEY=$secret AWS_DEFAULT_REGION=us-east-1
aws --endpoint-url \$AWS_ENDPOINT_URL s3 cp README.md s3://$bucket/
aws --endpoint-url \$AWS_ENDPOINT_URL s3 ls s3://$bucket/

Or without aws:  curl --aws-sigv4 aws:amz:us-east-1:s3 -H x-amz-content-sha256:UNSIGNED-PAYLOAD -u "$key:$secret" -T README.md http://127.0.0.1:$port/$bucket/README.md
Look inside:     build/hayloft -c $home/hayloft.toml status      (bucket list, key list, stats, --help)
Stop it:         make stop
TEXT
