# The front door; meson and ninja do the work. `make build` needs what `tools/setup build`
# installs, `make test` what `tools/setup test` adds: both are called here and cost nothing
# when everything is there. KILN_SETUP=no leaves the system alone.

KILN_SETUP ?= yes
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 1800
SOAK_SERVER_SECONDS ?= 3600
SECONDS ?= 1800
BUILD ?= build
PREFIX ?= /usr/local
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,etc)
DESTDIR ?=
setup = @if [ "$(KILN_SETUP)" = yes ]; then tools/setup $(1); fi

.PHONY: build run check test test-long hostile bench fuzz soak soak-server chaos docs format install uninstall packages static image clean

# Leaves build/kiln.
build:
	$(call setup,build)
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) '--prefix=$(PREFIX)' '--sysconfdir=$(SYSCONFDIR)'
	@ninja -C $(BUILD) --quiet

# A server, a rideshare service in three regions and a load on it; see docs/tutorials/demo.md.
run: build
	@tools/demo build

# The quick parts of `make test`, for use while working.
check: build
	$(call setup,test)
	@tests/run --check

# What is short and a share of what takes long, one line for each part; see tests/run.
test: build
	$(call setup,test)
	@tests/run

# Everything, every test in its long form.
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

# A site with search from README.md and docs/, in build/site; see tools/site.
docs:
	$(call setup,docs)
	@tools/site

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' '*.cpp' '*.hpp' ':!tests/golden' | xargs clang-format -i

# Folders may have spaces, and DESTDIR may be relative. Files that root creates here get the owner of the source, so that
# `make build` works afterwards.
set_folders = log=$$(meson configure $(BUILD) '-Dprefix=$(PREFIX)' '-Dsysconfdir=$(SYSCONFDIR)' 2>&1 && ninja -C $(BUILD) --quiet 2>&1) || \
	{ echo "$$log" >&2; exit 1; }; export DESTDIR='$(DESTDIR)'; DESTDIR=$${DESTDIR:+$$(realpath -m -- "$$DESTDIR")}
restore_owner = status=$$?; [ "$$(id -u)" != 0 ] || chown -R -h --reference=. $(BUILD) $(wildcard web/node_modules); exit $$status

# Into PREFIX; DESTDIR is put in front of every path, for packages.
install: build
	@($(set_folders); meson install -C $(BUILD) --no-rebuild --quiet); $(restore_owner)

# With the PREFIX and DESTDIR of the installation.
uninstall: build
	@($(set_folders); tools/uninstall $(BUILD) "$$DESTDIR"); $(restore_owner)

# .deb and .rpm in build-packages; tools/packages RELEASE... builds some of them.
packages: build
	$(call setup,packages)
	@tools/packages

# The command and the server as one static program: build-static/ARCH/kiln.
static:
	$(call setup,packages)
	@tools/static

# A container image of the static program, as an OCI archive.
version = $(shell sed -n "s/^ *version: '\(.*\)',/\1/p" meson.build)
image: static
	@mkdir -p build
	@tools/image build/kiln-$(version).oci.tar amd64=build-static/x86_64/kiln

clean:
	@rm -rf build build-asan build-tsan build-fuzz build-fuzz-slice build-bench build-arm64 build-static build-packages build-release
