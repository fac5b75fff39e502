#include "chaos/faults/fault.h"

#include "core/compiler.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

const struct fault_kind fault_kinds[] = {
    {.name = "eio", .source = FAULT_FILE, .code = EIO},
    {.name = "estale", .source = FAULT_FILE, .code = ESTALE},
    {.name = "enospc", .source = FAULT_FILE, .code = ENOSPC, .of_writes = true},
    {.name = "eintr", .source = FAULT_FILE, .code = EINTR, .is_harmless = true, .once_only = true},
    {.name = "lost", .source = FAULT_FILE, .code = EIO, .of_writes = true, .loses_answer = true},
    {.name = "short", .source = FAULT_FILE, .halves = true},
    {.name = "io", .source = FAULT_SQLITE, .code = SQLITE_IOERR},
    {.name = "full", .source = FAULT_SQLITE, .code = SQLITE_FULL, .of_writes = true},
    {.name = "step-io", .source = FAULT_STEP, .code = SQLITE_IOERR_READ},
    {.name = "step-memory", .source = FAULT_STEP, .code = SQLITE_NOMEM},
    {.name = "step-busy", .source = FAULT_STEP, .code = SQLITE_BUSY},
    {.name = "step-corrupt", .source = FAULT_STEP, .code = SQLITE_CORRUPT},
    {.name = "memory", .source = FAULT_ALLOCATION, .code = ENOMEM},
};
const unsigned fault_kind_count = ARRAY_SIZE(fault_kinds);

static struct fault armed;
static atomic_bool counts;
static _Atomic uint64_t met;
static _Atomic uint64_t strikes;
static atomic_flag is_told = ATOMIC_FLAG_INIT;
static char struck[128];

const char *fault_source_name(enum fault_source source)
{
    static const char *const names[FAULT_SOURCE_COUNT] = {
        [FAULT_FILE] = "file",
        [FAULT_SQLITE] = "sqlite",
        [FAULT_STEP] = "step",
        [FAULT_ALLOCATION] = "allocation",
    };

    return names[source];
}

const struct fault_kind *fault_kind_find(const char *name)
{
    for (unsigned i = 0; i < fault_kind_count; i++) {
        if (strcmp(fault_kinds[i].name, name) == 0)
            return &fault_kinds[i];
    }
    return NULL;
}

void fault_set_up(void)
{
    places_set_up();
    fault_allocations_set_up(); /* SQLite takes its memory from the first call on */
    fault_sqlite_set_up();
    fault_files_set_up();
}

void fault_arm(const struct fault *fault)
{
    armed = *fault;
    atomic_store(&met, 0);
    atomic_store(&strikes, 0);
    atomic_flag_clear(&is_told);
    struck[0] = '\0';
    atomic_store(&counts, false);
}

void fault_disarm(void)
{
    atomic_store(&counts, false);
    armed.kind = NULL;
}

void fault_pause(void)
{
    atomic_store(&counts, false);
}

void fault_resume(void)
{
    atomic_store(&counts, armed.kind != NULL);
}

uint64_t fault_met(void)
{
    return atomic_load(&met);
}

uint64_t fault_strikes(void)
{
    return atomic_load(&strikes);
}

const char *fault_struck(void)
{
    return struck;
}

const struct fault_kind *fault_armed_kind(void)
{
    return armed.kind;
}

const struct fault_kind *fault_counted(void)
{
    return atomic_load(&counts) ? armed.kind : NULL;
}

const struct fault_kind *fault_next(enum fault_source source, bool writes, const char *what)
{
    const struct fault_kind *kind = fault_counted();

    if (!kind || kind->source != source || (kind->of_writes && !writes))
        return NULL;
    uint64_t number = atomic_fetch_add(&met, 1) + 1;
    if (armed.places)
        places_note(armed.places, number);
    if (armed.at == 0 || number < armed.at || (number > armed.at && !armed.persists))
        return NULL;
    atomic_fetch_add(&strikes, 1);
    if (!atomic_flag_test_and_set(&is_told))
        (void) snprintf(struck, sizeof struck, "%s", what);
    return kind;
}
