#include "tests/support/wrapped/allocations.h"

#include "core/compiler.h"
#include "tests/support/files.h"

#include <errno.h>
#include <jansson.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Names that begin so are the linker's. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);
int __wrap_asprintf(char **ret, const char *format, ...) PRINTF(2, 3);

static allocation_judge judge;

static bool fails(const char *what)
{
    if (!judge || !judge(what))
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails("malloc") ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails("calloc") ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails("realloc") ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
    return fails("reallocarray") ? NULL : __real_reallocarray(old, count, size);
}

char *__wrap_strdup(const char *text)
{
    return fails("strdup") ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
    return fails("strndup") ? NULL : __real_strndup(text, size);
}

int __wrap_asprintf(char **ret, const char *format, ...)
{
    va_list arguments;

    if (fails("asprintf"))
        return -1;
    va_start(arguments, format);
    int length = vasprintf(ret, format, arguments);
    va_end(arguments);
    return length;
}

/* ---- libraries ---- */

static sqlite3_mem_methods sqlite_memory;

static void *sqlite_malloc(int size)
{
    return fails("SQLite's malloc") ? NULL : sqlite_memory.xMalloc(size);
}

static void *sqlite_realloc(void *old, int size)
{
    return fails("SQLite's realloc") ? NULL : sqlite_memory.xRealloc(old, size);
}

static void *jansson_malloc(size_t size)
{
    return fails("jansson's malloc") ? NULL : __real_malloc(size);
}

void allocations_ask(allocation_judge refuses)
{
    judge = refuses;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory) != SQLITE_OK)
        test_die("no methods of SQLite's memory");
    sqlite3_mem_methods asked = sqlite_memory;
    asked.xMalloc = sqlite_malloc;
    asked.xRealloc = sqlite_realloc;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &asked) != SQLITE_OK)
        test_die("SQLite takes no other memory");
    json_set_alloc_funcs(jansson_malloc, free);
}
