# The few commands that a person types. Each installs what it needs with apt (as root or through sudo).
#   make run      build, start a single node with a bucket and a key, print what to paste next
#   make stop     stop what make run started
#   make test     everything that CI runs, without asking (about 20 minutes on two cores)
#   make build    leaves build/hayloft
#   make bench    the table of first figures, ours beside the limits of this machine
#   make fuzz     every parser's fuzz target for a minute each (FUZZ_SECONDS=...)
#   make crash    the long crash run: 10,000 kills and many simulator seeds
#   make coverage branch coverage of the parsers
#   make install  program, man page, unit file and completions (PREFIX, DESTDIR)
PREFIX ?= /usr/local
SHELL := /bin/bash

.PHONY: all build run stop test quick bench fuzz crash coverage install tidy clean

all: build

build:
	@tools/deps.sh build
	@tools/build.sh build

run: build
	@tools/run.sh

stop:
	@tools/run.sh stop

test:
	@tools/deps.sh build test
	@python3 test/run.py

# The quick path: unit tests and tidy only, for the inner loop.
quick:
	@tools/deps.sh build unit
	@python3 test/run.py --only tidy,unit

bench: build
	@tools/deps.sh bench
	@python3 test/perf/bench.py

fuzz:
	@tools/deps.sh build fuzz
	@python3 test/fuzz/run.py

crash:
	@tools/deps.sh build test
	@python3 test/run.py --only crash-long

coverage:
	@tools/deps.sh build fuzz
	@python3 test/fuzz/run.py --coverage

install: build
	@meson configure build --prefix "$(PREFIX)" && ninja -C build --quiet
	@DESTDIR="$(DESTDIR)" meson install -C build --no-rebuild

tidy:
	@python3 tools/tidy.py

clean:
	rm -rf build build-*
