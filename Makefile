# memsyncd: one make, no recursion. `make help` lists the targets.
#
# Every kind of build (plain, test, asan, tsan, fuzz) has a directory of its own below build/, so that they never mix.

VERSION := 0.1.0

CC ?= gcc
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
DESTDIR ?=
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/memsyncd
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
UNITDIR ?= $(PREFIX)/lib/systemd/system
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions

DEBIAN_BUILD := gcc make pkg-config libsqlite3-dev libjansson-dev libzmq3-dev libyaml-dev libicu-dev \
	libxxhash-dev libsodium-dev libsystemd-dev
DEBIAN_TEST := libcriterion-dev python3 python3-zmq python3-yaml sqlite3 fuse3 libfuse3-dev mandoc systemd-container
DEBIAN_LINT := clang clang-format clang-tidy cppcheck libclang-rt-14-dev shellcheck valgrind

PACKAGES := sqlite3 jansson libzmq yaml-0.1 icu-uc icu-i18n libxxhash libsodium libsystemd
CLIENT_PACKAGES := jansson libzmq

BUILD ?= build/plain
FLAVOUR_CFLAGS ?=
FLAVOUR_LDFLAGS ?=

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes \
	-Wold-style-definition -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wformat=2 -Wvla \
	-Wno-format-nonliteral -Wno-gnu-statement-expression -Werror
CPPFLAGS += -I. -D_GNU_SOURCE -DMEMSYNC_VERSION='"$(VERSION)"' $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=gnu17 $(CFLAGS) $(WARNINGS) -fPIC -pthread -fno-strict-aliasing -fstack-protector-strong \
	$(FLAVOUR_CFLAGS)
LDLIBS = $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lm
CLIENT_LDLIBS = $(shell pkg-config --libs $(CLIENT_PACKAGES) 2>/dev/null)
ALL_LDFLAGS = -pthread -Wl,-z,relro -Wl,-z,now $(LDFLAGS) $(FLAVOUR_LDFLAGS)

CORE := $(wildcard core/*.c)
BACKENDS := $(wildcard backends/*.c)
CLIENT := ipc/client.c
IPC := $(filter-out $(CLIENT),$(wildcard ipc/*.c))
AGENT := $(filter-out agent/main.c,$(wildcard agent/*.c))
CLI := $(wildcard ipc/cli/*.c)
SUPPORT := $(wildcard tests/support/*.c)
UNIT := $(wildcard tests/unit/test_*.c)
RACE := $(wildcard tests/race/*.c)
FUZZ := $(wildcard tests/fuzz/fuzz_*.c)

obj = $(patsubst %.c,$(BUILD)/%.o,$(1))

.PHONY: all
all: $(BUILD)/memsyncd $(BUILD)/memsync $(BUILD)/libmemsync.a $(BUILD)/libmemsync.so ## build the agent, the command line and the client library

$(BUILD)/%.o: %.c | deps-check
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libmemsyncd.a: $(call obj,$(CORE) $(BACKENDS) $(IPC) $(AGENT))
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/libmemsync.a: $(call obj,$(CLIENT))
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/libmemsync.so: $(call obj,$(CLIENT))
	$(CC) -shared -Wl,-soname,libmemsync.so.1 $(ALL_LDFLAGS) $^ $(CLIENT_LDLIBS) -o $@

$(BUILD)/memsyncd: $(call obj,agent/main.c) $(BUILD)/libmemsyncd.a
	$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/memsync: $(call obj,$(CLI)) $(BUILD)/libmemsync.a
	$(CC) $(ALL_LDFLAGS) $^ $(CLIENT_LDLIBS) -lm -o $@

# ---- tests ----
# Unit tests are one program per module; they and the integration tests run on a build with pause points.

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(call obj,$(SUPPORT)) $(BUILD)/libmemsyncd.a $(BUILD)/libmemsync.a
	$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -lcriterion -o $@

UNIT_PROGRAMS = $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(UNIT))
.PHONY: unit-programs
unit-programs: $(UNIT_PROGRAMS)

-include $(shell find build -name '*.d' 2>/dev/null)

.PHONY: deps-check
deps-check:
	@pkg-config --exists $(PACKAGES) || { echo "memsyncd: libraries are missing; run 'make deps' first" >&2; exit 1; }

.PHONY: clean
clean: ## remove everything that was built
	rm -rf build

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  %-16s %s\n", $$1, $$2}'
