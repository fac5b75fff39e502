# memsyncd: one make, no recursion. `make help` lists the targets.
#
# Every kind of build (plain, test, clang, asan, tsan, fuzz) has a directory of its own below build/, so that
# they never mix. V=1 shows the commands.

VERSION := 0.1.0

ifeq ($(origin CC),default)
CC := gcc
endif
CLANG ?= clang
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
DESTDIR ?=
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/memsyncd
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions

DEBIAN_BUILD := gcc make pkg-config libsqlite3-dev libjansson-dev libzmq3-dev libyaml-dev libicu-dev \
	libxxhash-dev libsodium-dev libsystemd-dev libmicrohttpd-dev
DEBIAN_FUSE := libfuse3-dev fuse3
DEBIAN_TEST := libcriterion-dev python3 python3-zmq python3-yaml python3-setuptools python3-wheel sqlite3 mandoc \
	systemd procps valgrind $(DEBIAN_FUSE)
DEBIAN_LINT := clang clang-format clang-tidy cppcheck libclang-rt-14-dev shellcheck mypy
DEBIAN_MODEL := gcc python3 spin

PACKAGES := sqlite3 jansson libzmq yaml-0.1 icu-uc icu-i18n libxxhash libsodium libsystemd libmicrohttpd
CLIENT_PACKAGES := jansson libzmq

# One flavour of build: where it goes and what it adds.
FLAVOUR ?= plain
BUILD := build/$(FLAVOUR)
FLAVOUR_CFLAGS :=
FLAVOUR_LDFLAGS :=
ifneq ($(filter test clang,$(FLAVOUR)),)
FLAVOUR_CFLAGS := -DMEMSYNC_PAUSE_POINTS
endif
ifeq ($(FLAVOUR),asan)
FLAVOUR_CFLAGS := -DMEMSYNC_PAUSE_POINTS -fsanitize=address,undefined -fno-sanitize-recover=all \
	-fno-omit-frame-pointer -O1
FLAVOUR_LDFLAGS := -fsanitize=address,undefined
endif
ifeq ($(FLAVOUR),tsan)
FLAVOUR_CFLAGS := -DMEMSYNC_PAUSE_POINTS -fsanitize=thread -O1
FLAVOUR_LDFLAGS := -fsanitize=thread
endif
# Children of tests end without the C library's help, and ask for their counts to be kept (tests/support/child.h).
ifeq ($(FLAVOUR),coverage)
FLAVOUR_CFLAGS := -DMEMSYNC_PAUSE_POINTS --coverage -fprofile-update=atomic
FLAVOUR_LDFLAGS := --coverage -Wl,--undefined=__gcov_dump
endif
ifeq ($(FLAVOUR),fuzz)
CC := $(CLANG)
FLAVOUR_CFLAGS := -DMEMSYNC_PAUSE_POINTS -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=all -O1
FLAVOUR_LDFLAGS := -fsanitize=address,undefined
endif

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef \
	-Wformat=2 -Wvla -Wno-format-nonliteral -Werror
PACKAGE_CFLAGS := $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
CPPFLAGS += -I. -D_GNU_SOURCE -DMEMSYNC_VERSION='"$(VERSION)"' $(PACKAGE_CFLAGS)
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=gnu17 $(CFLAGS) $(WARNINGS) -fPIC -pthread -fno-strict-aliasing \
	-fstack-protector-strong $(FLAVOUR_CFLAGS)
LDLIBS := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lm
CLIENT_LDLIBS := $(shell pkg-config --libs $(CLIENT_PACKAGES) 2>/dev/null)
ALL_LDFLAGS = -pthread -Wl,-z,relro -Wl,-z,now $(LDFLAGS) $(FLAVOUR_LDFLAGS)

CLIENT := $(wildcard ipc/client*.c)
CORE := $(wildcard core/*.c)
IPC := $(filter-out $(CLIENT),$(wildcard ipc/*.c))
AGENT := $(filter-out agent/main.c,$(wildcard agent/*.c))
BACKENDS := $(wildcard backends/*.c)
CLI := $(wildcard ipc/cli/*.c)
SUPPORT := $(wildcard tests/support/*.c)
WRAPPED := $(wildcard tests/support/wrapped/*.c)
UNIT := $(wildcard tests/unit/test_*.c)
RACE := $(wildcard tests/race/*.c)
TOOLS := $(wildcard tests/tools/*.c)
BENCH_FUSE := tests/bench/slow_volume.c
BENCH_C := $(filter-out tests/bench/samples.c $(BENCH_FUSE),$(wildcard tests/bench/*.c))
CHAOS := $(wildcard chaos/support/*.c)
REPLAY := $(wildcard chaos/replay/*.c)
CHAOS_OPTIONS := $(addprefix chaos/support/,jobs.c numbers.c options.c)
EXPLORER := $(wildcard chaos/explorer/*.c) $(CHAOS_OPTIONS)
FAULTS := $(wildcard chaos/faults/*.c) $(CHAOS_OPTIONS)
FUZZ := $(wildcard tests/fuzz/fuzz_*.c)

comma := ,
obj = $(patsubst %.c,$(BUILD)/%.o,$(1))

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)')

.DEFAULT_GOAL := all
.PHONY: all
all: $(BUILD)/memsyncd $(BUILD)/memsync $(BUILD)/libmemsync.a $(BUILD)/libmemsync.so ## build agent, command line and client library

$(BUILD)/%.o: %.c | packages
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libmemsyncd.a: $(call obj,$(CORE) $(BACKENDS) $(IPC) $(AGENT))
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/libmemsync.a: $(call obj,$(CLIENT))
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/libmemsync.so: $(call obj,$(CLIENT))
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libmemsync.so.1 $(ALL_LDFLAGS) $^ $(CLIENT_LDLIBS) -o $@

$(BUILD)/memsyncd: $(call obj,agent/main.c) $(BUILD)/libmemsyncd.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/memsync: $(call obj,$(CLI)) $(BUILD)/libmemsync.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(CLIENT_LDLIBS) -lm -o $@

# ---- the Python client ----
# The wheel is made from the source distribution, so that one is known to be complete. Both are made of a copy: the
# tree stays as it is.

PYTHON_BUILD ?= build/python
PYTHON_SOURCE := memsync-$(VERSION)
BUILD_DISTRIBUTION = PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -c \
	'import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])'

.PHONY: python-package
python-package: ## wheel and source distribution of the Python client, in build/python/dist
	$(call say,DIST,$(PYTHON_BUILD)/dist)
	$(Q)rm -rf $(PYTHON_BUILD)/tree $(PYTHON_BUILD)/dist $(PYTHON_BUILD)/$(PYTHON_SOURCE)
	$(Q)mkdir -p $(PYTHON_BUILD)/tree $(PYTHON_BUILD)/dist
	$(Q)cp Makefile $(PYTHON_BUILD)/
	$(Q)cp -r ipc/python $(PYTHON_BUILD)/tree/ && cp LICENSE $(PYTHON_BUILD)/tree/python/
	$(Q)cd $(PYTHON_BUILD)/tree/python && $(BUILD_DISTRIBUTION) build_sdist ../../dist >../../log 2>&1 || \
		{ cat ../../log >&2; exit 1; }
	$(Q)tar -xf $(PYTHON_BUILD)/dist/$(PYTHON_SOURCE).tar.gz -C $(PYTHON_BUILD)
	$(Q)cd $(PYTHON_BUILD)/$(PYTHON_SOURCE) && $(BUILD_DISTRIBUTION) build_wheel ../dist >../log 2>&1 || \
		{ cat ../log >&2; exit 1; }

.PHONY: check-python
check-python: ## types of the Python client
	$(Q)if command -v mypy >/dev/null; then cd ipc/python && mypy --cache-dir $(CURDIR)/build/mypy; \
		else echo "SKIPPED: mypy is not installed: the types of the Python client are not checked" >&2; fi

# ---- tests ----
# One program per module. They and the programs that integration tests start are built with pause points.

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(call obj,$(SUPPORT)) $(BUILD)/libmemsyncd.a $(BUILD)/libmemsync.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(UNIT_WRAPS) $^ $(LDLIBS) -lcriterion -o $@

# Whatever asks for memory asks tests/support/wrapped first, and in one test other calls do.
ALLOCATION_WRAPS := $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc reallocarray strdup strndup asprintf)

$(BUILD)/tests/unit/test_refusals: $(call obj,$(WRAPPED))
$(BUILD)/tests/unit/test_refusals: UNIT_WRAPS := $(ALLOCATION_WRAPS) \
	$(addprefix -Wl$(comma)--wrap=,pthread_create getrandom inotify_init1 flock poll write)

$(BUILD)/tests/race/run: $(call obj,$(RACE) $(SUPPORT)) $(BUILD)/libmemsyncd.a $(BUILD)/libmemsync.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@

# What integration tests start besides agent and command line.
$(BUILD)/tests/tools/%: $(BUILD)/tests/tools/%.o $(BUILD)/libmemsyncd.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@

# What measurements run besides agent and command line.
$(BUILD)/tests/bench/%: $(BUILD)/tests/bench/%.o $(call obj,tests/bench/samples.c tests/support/files.c) $(BUILD)/libmemsyncd.a $(BUILD)/libmemsync.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@

# The slow volume and chaos/netvol are the programs with libfuse: nothing else is compiled or linked with it.
$(call obj,$(BENCH_FUSE)): CPPFLAGS += $(shell pkg-config --cflags fuse3 2>/dev/null)
$(BUILD)/tests/bench/slow_volume: $(call obj,$(BENCH_FUSE) tests/support/files.c)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(shell pkg-config --libs fuse3 2>/dev/null) -o $@

# Without libfuse there is no such volume, and tests that want it say so.
NETVOL := $(wildcard chaos/netvol/*.c)
NETVOL_PROGRAM := $(if $(shell pkg-config --exists fuse3 2>/dev/null && echo yes),$(BUILD)/chaos/netvol/netvol)
$(call obj,$(NETVOL)): CPPFLAGS += $(shell pkg-config --cflags fuse3 2>/dev/null)
$(BUILD)/chaos/netvol/netvol: $(call obj,$(NETVOL) chaos/support/numbers.c core/text.c core/array.c core/clock.c)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(shell pkg-config --libs fuse3 2>/dev/null) -lm -o $@

$(BUILD)/chaos/replay/run: $(call obj,$(REPLAY) $(CHAOS) $(SUPPORT)) $(BUILD)/libmemsyncd.a $(BUILD)/libmemsync.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@

# Whatever waits or asks for the time comes to the explorer first (chaos/explorer/wrap.h).
EXPLORER_WRAPS := $(addprefix -Wl$(comma)--wrap=,pthread_cond_wait pthread_cond_timedwait \
	pthread_cond_broadcast pthread_cond_signal nanosleep clock_nanosleep clock_gettime)

$(BUILD)/chaos/explorer/run: $(call obj,$(EXPLORER) $(SUPPORT)) $(BUILD)/libmemsyncd.a $(BUILD)/libmemsync.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(EXPLORER_WRAPS) $^ $(LDLIBS) -o $@

# Whatever asks for memory or makes SQLite go a step may be refused (chaos/faults/fault.h), and no watcher comes round.
FAULTS_WRAPS := $(ALLOCATION_WRAPS) $(addprefix -Wl$(comma)--wrap=,sqlite3_step keeper_start keeper_stop keeper_touch)

$(BUILD)/chaos/faults/run: $(call obj,$(FAULTS) $(SUPPORT) $(WRAPPED)) $(BUILD)/libmemsyncd.a $(BUILD)/libmemsync.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(FAULTS_WRAPS) $^ $(LDLIBS) -o $@

# A mutant's programs: the files that know it are compiled anew, all else is the build's. Objects come before the
# archive, so its own versions of these files are not taken. (chaos/mutants/run.py sets the variables.)
MUTANT_DIR ?= build/mutants/none
MUTANT_OBJECTS := $(patsubst %.c,$(MUTANT_DIR)/%.o,$(MUTANT_FILES))

$(MUTANT_DIR)/%.o: %.c | packages
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -DMEMSYNC_MUTANTS='($(MUTANT_BITS))' -MMD -MP -c $< -o $@

$(MUTANT_DIR)/chaos/replay/run: $(call obj,$(REPLAY) $(CHAOS) $(SUPPORT))
$(MUTANT_DIR)/chaos/explorer/run: $(call obj,$(EXPLORER) $(SUPPORT))
$(MUTANT_DIR)/chaos/explorer/run: MUTANT_WRAPS := $(EXPLORER_WRAPS)
$(MUTANT_DIR)/memsyncd: $(call obj,agent/main.c)
$(MUTANT_DIR)/memsync: $(call obj,$(CLI))
MUTANT_UNITS := $(addprefix tests/unit/,test_refresher test_write_session test_volume_snapshot \
	test_volume_recover)
$(MUTANT_DIR)/tests/unit/%: $(BUILD)/tests/unit/%.o $(call obj,$(SUPPORT)) $(MUTANT_OBJECTS) $(BUILD)/libmemsyncd.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS) -lcriterion -o $@
MUTANT_PROGRAMS := $(addprefix $(MUTANT_DIR)/,chaos/replay/run chaos/explorer/run memsyncd memsync)
$(MUTANT_PROGRAMS): $(MUTANT_OBJECTS) $(BUILD)/libmemsyncd.a $(BUILD)/libmemsync.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) $(MUTANT_WRAPS) $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS) -o $@

$(MUTANT_DIR)/chaos/netvol/netvol: $(NETVOL_PROGRAM)
	@mkdir -p $(@D)
	$(Q)cp $< $@

.PHONY: mutant-programs
mutant-programs: $(MUTANT_PROGRAMS) $(addprefix $(MUTANT_DIR)/,$(MUTANT_UNITS)) \
	$(if $(NETVOL_PROGRAM),$(MUTANT_DIR)/chaos/netvol/netvol)

UNIT_PROGRAMS := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(UNIT))
RACE_PROGRAM := $(if $(RACE),$(BUILD)/tests/race/run)
TOOL_PROGRAMS := $(patsubst tests/tools/%.c,$(BUILD)/tests/tools/%,$(TOOLS))
BENCH_PROGRAMS := $(patsubst tests/bench/%.c,$(BUILD)/tests/bench/%,$(BENCH_C) $(BENCH_FUSE))
COUNTED_PROGRAM := $(BUILD)/tests/bench/inside
CHAOS_PROGRAMS := $(addprefix $(BUILD)/chaos/,replay/run explorer/run faults/run)
FUZZ_PROGRAMS := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(FUZZ))

$(BUILD)/tests/fuzz/%: $(BUILD)/tests/fuzz/%.o $(BUILD)/libmemsyncd.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer $^ $(LDLIBS) -o $@

.PHONY: test-programs bench-programs fuzz-programs
bench-programs: all $(BENCH_PROGRAMS)
test-programs: all $(UNIT_PROGRAMS) $(RACE_PROGRAM) $(TOOL_PROGRAMS) $(CHAOS_PROGRAMS) $(COUNTED_PROGRAM) \
	$(NETVOL_PROGRAM)
fuzz-programs: $(FUZZ_PROGRAMS)

.PRECIOUS: $(BUILD)/%.o

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
SUBMAKE = $(MAKE) --no-print-directory -j$(JOBS)

.PHONY: check
check: deps ## build everything and run all tests
	$(Q)$(SUBMAKE) all
	$(Q)$(SUBMAKE) FLAVOUR=test test-programs
	$(Q)$(PYTHON) tests/run.py --build build/test $(TESTS)

.PHONY: asan
asan: deps ## the tests under address and undefined-behaviour sanitizers
	$(Q)$(SUBMAKE) FLAVOUR=asan test-programs
	$(Q)$(PYTHON) tests/run.py --build build/asan $(TESTS)

.PHONY: tsan
tsan: deps ## races and server under the thread sanitizer
	$(Q)$(SUBMAKE) FLAVOUR=tsan build/tsan/tests/race/run build/tsan/chaos/replay/run build/tsan/memsyncd build/tsan/memsync \
		$(if $(NETVOL_PROGRAM),build/tsan/chaos/netvol/netvol)
	$(Q)$(PYTHON) tests/run.py --build build/tsan --tsan $(TESTS)

# Counts of an earlier run would be added to. What `check` tries of chaos/faults is a sample: here it is every place.
.PHONY: coverage
coverage: deps ## which pause points, log lines and errors of core/ no test reaches, and why
	$(Q)$(SUBMAKE) FLAVOUR=coverage test-programs
	$(Q)find build/coverage -name '*.gcda' -delete
	-$(Q)$(PYTHON) tests/run.py --build build/coverage $(TESTS)
	-$(Q)build/coverage/chaos/faults/run --distinct --mode once --jobs $(JOBS)
	-$(Q)build/coverage/chaos/faults/run --distinct --mode persistent --fault step-corrupt --jobs $(JOBS)
	$(Q)$(PYTHON) tests/coverage/report.py --json build/coverage.json

# Longer than `check` does: SECONDS for each part, SEED where chance begins.
SEED ?= 1
SECONDS ?= 60
.PHONY: chaos-explorer
chaos-explorer: deps ## every order of some actors' steps, up to a bound, then by chance: SEED=1 SECONDS=60 a scenario
	$(Q)$(SUBMAKE) FLAVOUR=test build/test/chaos/explorer/run
	$(Q)build/test/chaos/explorer/run --bound +1 --walks 1000000 --seed $(SEED) --seconds $(SECONDS) --jobs $(JOBS)

.PHONY: chaos-faults
chaos-faults: deps ## let every call, SQLite step and allocation of every scenario fail: FAULTS_OPTIONS="--scenario create"
	$(Q)$(SUBMAKE) FLAVOUR=test build/test/chaos/faults/run
	$(Q)build/test/chaos/faults/run --jobs $(JOBS) $(FAULTS_OPTIONS)

.PHONY: chaos
chaos: chaos-explorer ## schedules, chance and everything at once, for longer: SEED=1 SECONDS=60
	$(Q)$(SUBMAKE) FLAVOUR=test $(patsubst $(BUILD)/%,build/test/%,$(CHAOS_PROGRAMS))
	$(Q)build/test/chaos/replay/run --repeat 3
	$(Q)build/test/chaos/replay/run --random --seed $(SEED) --seconds $(SECONDS)
	$(Q)build/test/chaos/replay/run --together --seed $(SEED) --seconds $(SECONDS)
	$(Q)$(SUBMAKE) TIME=$(SECONDS) chaos-soak

.PHONY: mutants
mutants: deps ## leave out one rule at a time: which scenario notices? MUTANTS='NAME ...'
	$(Q)$(PYTHON) chaos/mutants/run.py $(if $(MUTANTS),--only $(MUTANTS))

.PHONY: valgrind
valgrind: deps-lint ## the races under valgrind's memcheck
	$(Q)$(SUBMAKE) FLAVOUR=test test-programs
	$(Q)valgrind --quiet --error-exitcode=1 --leak-check=full --errors-for-leak-kinds=definite,indirect \
		build/test/tests/race/run

.PHONY: fuzz-smoke
fuzz-smoke: deps-lint ## every fuzzer over its corpus and a short deterministic run
	$(Q)$(SUBMAKE) FLAVOUR=fuzz fuzz-programs
	$(Q)$(PYTHON) tests/fuzz/smoke.py build/fuzz/tests/fuzz

.PHONY: chaos-kill
chaos-kill: deps ## kill agents and peers at every step, and look what is lost: KILL="--seed 2"
	$(Q)$(SUBMAKE) FLAVOUR=test all
	$(Q)$(PYTHON) chaos/kill/kill.py --build build/test --all $(KILL)

chaos: chaos-kill

# BENCH="--only changed,warm --directory DIR": see tests/bench/bench.py --help.
.PHONY: bench bench-quick
bench: deps ## how fast it is, beside floors of the same run; table and build/bench.json: BENCH="--only NAME"
	$(Q)$(SUBMAKE) bench-programs
	$(Q)$(PYTHON) tests/bench/bench.py --build build/plain --json build/bench.json \
		--charts build/charts $(BENCH)

bench-quick: override BENCH += --quick
bench-quick: bench ## the same on small volumes, one run of each, in about two minutes

# `check` holds them against their limits. COUNTS="--directory DIR" keeps the profiles.
.PHONY: counts
counts: deps ## instructions of a search and a compare, beside floors and limits: COUNTS="--directory DIR"
	$(Q)$(SUBMAKE) FLAVOUR=test build/test/tests/bench/inside
	$(Q)$(PYTHON) tests/bench/counts.py --build build/test $(COUNTS)

TIME ?= 3600
.PHONY: soak chaos-soak bench-soak
soak: ## chaos-soak, then bench-soak: TIME=3600 SEED=1
	$(Q)$(MAKE) --no-print-directory chaos-soak
	$(Q)$(MAKE) --no-print-directory bench-soak

# SOAK="--agents 3 --volume netvol": see chaos/soak/soak.py --help.
chaos-soak: deps ## agents, workers, third parties and faults, and the history checked: TIME=3600 SEED=1
	$(Q)$(SUBMAKE) FLAVOUR=test all $(patsubst $(BUILD)/%,build/test/%,$(NETVOL_PROGRAM))
	$(Q)$(PYTHON) chaos/soak/soak.py --build build/test --time $(TIME) --seed $(SEED) $(SOAK)

bench-soak: deps ## does an agent grow that works for long? mixed load for an hour: TIME=3600 SEED=1
	$(Q)$(SUBMAKE) all
	$(Q)$(PYTHON) tests/bench/soak.py --time $(TIME) --seed $(SEED) --build build/plain \
		--json build/soak.json --svg build/soak.svg

.PHONY: model
model: deps-model ## the protocol's model under spin: as it is, then with each rule left out
	$(Q)$(PYTHON) chaos/model/run.py $(RUNS)

.PHONY: demo
demo: deps ## index a sample volume, search it, watch a change arrive
	$(Q)$(SUBMAKE) all
	$(Q)$(PYTHON) tests/demo/demo.py --build $(BUILD)

# ---- lint ----

C_FILES = $(shell git ls-files '*.c' '*.h' 2>/dev/null || find agent backends chaos core ipc tests -name '*.[ch]')
TIDY_FILES = $(CORE) $(BACKENDS) $(IPC) $(CLIENT) $(CLI) $(AGENT) agent/main.c

.PHONY: check-format
check-format: ## is every C file laid out as .clang-format says?
	$(Q)clang-format --dry-run -Werror $(C_FILES)

.PHONY: check-includes
check-includes: ## do includes point down only?
	$(Q)$(PYTHON) tests/lint/check_includes.py
	$(Q)$(PYTHON) tests/lint/check_hygiene.py

# Again only where the file or what it includes has changed, as its object tells.
$(BUILD)/%.tidy: $(BUILD)/%.o .clang-tidy
	$(call say,TIDY,$*.c)
	$(Q)clang-tidy --quiet $*.c -- -std=gnu17 $(CPPFLAGS) >$@.log 2>&1 || { cat $@.log >&2; exit 1; }
	@mv $@.log $@

.PHONY: tidy
tidy: $(TIDY_FILES:%.c=$(BUILD)/%.tidy)

.PHONY: lint
lint: deps-lint check-format check-includes check-python ## format, include direction, clang, clang-tidy, cppcheck, man pages, types
	$(Q)$(SUBMAKE) FLAVOUR=clang CC=$(CLANG) all test-programs
	$(Q)$(SUBMAKE) FLAVOUR=clang CC=$(CLANG) tidy
	$(Q)cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
		--suppress=missingIncludeSystem --suppressions-list=tests/lint/cppcheck.txt --library=tests/lint/cppcheck.cfg \
		--error-exitcode=1 -j $(JOBS) -I. \
		-D_GNU_SOURCE -DMEMSYNC_VERSION='""' agent backends core ipc
	$(Q)mandoc -Tlint -Wwarning docs/man/*.[158]
	$(Q)shellcheck -s bash ipc/cli/*.bash .ci/run
	@echo "lint: clean"

# ---- dependencies ----

.PHONY: packages
packages:
	@pkg-config --exists $(PACKAGES) || { \
		echo "memsyncd: libraries are missing; run 'make deps' first" >&2; exit 1; }

missing = $(shell dpkg-query -W -f '$${db:Status-Abbrev} $${Package}\n' $(1) 2>/dev/null | sed -n 's/^ii *//p' | \
	sort > /tmp/.memsyncd-have.$$$$; printf '%s\n' $(1) | sort | comm -23 - /tmp/.memsyncd-have.$$$$; \
	rm -f /tmp/.memsyncd-have.$$$$)

define install_packages
	$(Q)missing='$(strip $(call missing,$(1)))'; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
		echo "memsyncd: install what this system calls: $$missing" >&2; exit 1; fi; \
	if [ "$$(id -u)" = 0 ]; then sudo=; elif command -v sudo >/dev/null; then sudo=sudo; else \
		echo "memsyncd: run as root: apt-get install $$missing" >&2; exit 1; fi; \
	echo "  APT   $$missing"; \
	$$sudo apt-get update -qq && \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null
endef

.PHONY: deps
deps: ## install what building and testing needs (Debian)
	$(call install_packages,$(DEBIAN_BUILD) $(DEBIAN_TEST))

.PHONY: deps-lint
deps-lint: deps ## install what lint and fuzzing need as well
	$(call install_packages,$(DEBIAN_LINT))

# The model needs nothing of the C code, so none of its libraries either.
.PHONY: deps-model
deps-model: ## install what the model needs
	$(call install_packages,$(DEBIAN_MODEL))

# ---- install ----

define install_unit
	sed 's|/usr/sbin/memsyncd|$(SBINDIR)/memsyncd|g' $(1) > $(DESTDIR)$(UNITDIR)/$(notdir $(1))
	chmod 644 $(DESTDIR)$(UNITDIR)/$(notdir $(1))

endef

.PHONY: install
install: all ## install below DESTDIR/PREFIX
	install -d $(addprefix $(DESTDIR),$(BINDIR) $(SBINDIR) $(LIBDIR)/pkgconfig $(INCLUDEDIR) $(UNITDIR) \
		$(SYSUSERSDIR) $(TMPFILESDIR) $(COMPLETIONDIR) $(DOCDIR)/docs/charts $(DOCDIR)/docs/monitoring $(DOCDIR)/ipc/python $(DOCDIR)/systemd \
		$(SYSCONFDIR)/memsyncd \
		$(MANDIR)/man1 $(MANDIR)/man5 $(MANDIR)/man8)
	install -m 755 $(BUILD)/memsyncd $(DESTDIR)$(SBINDIR)/memsyncd
	install -m 755 $(BUILD)/memsync $(DESTDIR)$(BINDIR)/memsync
	install -m 644 ipc/memsync.h $(DESTDIR)$(INCLUDEDIR)/memsync.h
	install -m 644 $(BUILD)/libmemsync.a $(DESTDIR)$(LIBDIR)/libmemsync.a
	install -m 755 $(BUILD)/libmemsync.so $(DESTDIR)$(LIBDIR)/libmemsync.so.$(VERSION)
	ln -sf libmemsync.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libmemsync.so.1
	ln -sf libmemsync.so.1 $(DESTDIR)$(LIBDIR)/libmemsync.so
	sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|g' \
		-e 's|@VERSION@|$(VERSION)|g' ipc/libmemsync.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/libmemsync.pc
	$(foreach unit,systemd/memsyncd.service systemd/memsyncd@.service,$(call install_unit,$(unit)))
	install -m 644 systemd/memsyncd.sysusers $(DESTDIR)$(SYSUSERSDIR)/memsyncd.conf
	install -m 644 systemd/memsyncd.tmpfiles $(DESTDIR)$(TMPFILESDIR)/memsyncd.conf
	test -e $(DESTDIR)$(SYSCONFDIR)/memsyncd/memsyncd.yaml || \
		install -m 644 systemd/memsyncd.yaml $(DESTDIR)$(SYSCONFDIR)/memsyncd/memsyncd.yaml
	install -m 644 ipc/cli/memsync.bash $(DESTDIR)$(COMPLETIONDIR)/memsync
	install -m 644 ipc/cli/memsyncd.bash $(DESTDIR)$(COMPLETIONDIR)/memsyncd
	install -m 644 docs/man/memsync.1 $(DESTDIR)$(MANDIR)/man1/
	install -m 644 docs/man/memsyncd.yaml.5 $(DESTDIR)$(MANDIR)/man5/
	install -m 644 docs/man/memsyncd.8 $(DESTDIR)$(MANDIR)/man8/
	install -m 644 README.md CHANGELOG.md CONTRIBUTING.md LICENSE $(DESTDIR)$(DOCDIR)/
	install -m 644 $(wildcard docs/*.md) $(DESTDIR)$(DOCDIR)/docs/
	install -m 644 $(wildcard docs/charts/*.svg) $(DESTDIR)$(DOCDIR)/docs/charts/
	install -m 644 $(wildcard docs/monitoring/*) $(DESTDIR)$(DOCDIR)/docs/monitoring/
	install -m 644 systemd/README.md $(DESTDIR)$(DOCDIR)/systemd/
	install -d $(DESTDIR)$(DOCDIR)/containers/kubernetes
	install -m 644 containers/Containerfile $(DESTDIR)$(DOCDIR)/containers/
	install -m 644 $(wildcard containers/kubernetes/*.yaml) $(DESTDIR)$(DOCDIR)/containers/kubernetes/
	install -m 644 ipc/python/README.md $(DESTDIR)$(DOCDIR)/ipc/python/

.PHONY: uninstall
uninstall: ## remove what install made, but for configuration
	rm -f $(DESTDIR)$(SBINDIR)/memsyncd $(DESTDIR)$(BINDIR)/memsync $(DESTDIR)$(INCLUDEDIR)/memsync.h \
		$(DESTDIR)$(LIBDIR)/libmemsync.a $(DESTDIR)$(LIBDIR)/libmemsync.so* \
		$(DESTDIR)$(LIBDIR)/pkgconfig/libmemsync.pc $(DESTDIR)$(UNITDIR)/memsyncd.service \
		$(DESTDIR)$(UNITDIR)/memsyncd@.service $(DESTDIR)$(SYSUSERSDIR)/memsyncd.conf \
		$(DESTDIR)$(TMPFILESDIR)/memsyncd.conf $(DESTDIR)$(COMPLETIONDIR)/memsync \
		$(DESTDIR)$(COMPLETIONDIR)/memsyncd $(DESTDIR)$(MANDIR)/man1/memsync.1 \
		$(DESTDIR)$(MANDIR)/man5/memsyncd.yaml.5 $(DESTDIR)$(MANDIR)/man8/memsyncd.8
	rm -rf $(DESTDIR)$(DOCDIR)

.PHONY: clean
clean: ## remove everything that was built
	rm -rf build

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | sort | \
		awk -F'\t' '{printf "  %-14s %s\n", $$1, $$2}'
	@echo "  FLAVOUR=plain|test|clang|asan|tsan|fuzz, CC=..., PREFIX=..., DESTDIR=..., TESTS='PATTERN ...', V=1"

-include $(shell find $(BUILD) $(MUTANT_DIR) -name '*.d' 2>/dev/null)
