# The front door; meson and ninja do the work. `make build` needs what `tools/setup build`
# installs, `make test` what `tools/setup test` adds: both are called here and cost nothing
# when everything is there. KILN_SETUP=no leaves the system alone.

KILN_SETUP ?= yes
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 1800
SOAK_SERVER_SECONDS ?= 3600
SECONDS ?= 1800
PREFIX ?= /usr/local
setup = @if [ "$(KILN_SETUP)" = yes ]; then tools/setup $(1); fi

.PHONY: build run check test test-long hostile bench fuzz soak soak-server chaos format install clean

# Leaves build/kiln.
build:
	$(call setup,build)
	@test -f build/build.ninja || meson setup build --prefix=$(PREFIX)
	@ninja -C build --quiet

# A server, a rideshare service in three regions and a load on it; see docs/tutorial.md.
run: build
	@tools/demo build

# The quick parts of `make test`, for use while working.
check: build
	$(call setup,test)
	@tests/run --check

# Everything, in order, with one line a part; see tests/run.
test: build
	$(call setup,test)
	@tests/run

# The same with every test in its long form.
test-long: build
	$(call setup,test)
	@tests/run --long

# Every figure beside its goal and its peers; BENCH="timers labels" runs some of them.
bench: build
	@bench/run $(BENCH)

# Every fuzz target for FUZZ_SECONDS each.
fuzz:
	$(call setup,test)
	@fuzz/run $(FUZZ_SECONDS)

# Half an hour of everything that a profiler must survive; see tests/soak/run.
soak: build
	$(call setup,test)
	@tests/soak/run $(SOAK_SECONDS)

# An hour of 1,000 services that push to a server, which is asked meanwhile: its memory must not grow.
soak-server: build
	@bench/server --scale --pods 0 --seconds $(SOAK_SERVER_SECONDS)

# Every hostile program in every mode, races repeated; see tests/hostile/run.
hostile: build
	$(call setup,test)
	@tests/hostile/run build --long

# Half an hour of kills, bad disks, clocks and tenants: nothing acknowledged is lost; SECONDS=60 for less.
chaos: build
	$(call setup,test)
	@tests/server/chaos build/kiln --seconds=$(SECONDS)

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' '*.cpp' '*.hpp' ':!tests/golden' | xargs clang-format -i

install: build
	@meson install -C build

clean:
	@rm -rf build build-asan build-tsan build-fuzz build-fuzz-slice build-bench build-arm64
