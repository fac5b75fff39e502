#include "tests/support/shared.h"

#include "tests/support/files.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *shared_root(void)
{
    const char *root = getenv("MEMSYNC_SHARED");

    return root && *root ? root : "../shared";
}

bool shared_is_there(void)
{
    struct stat status;
    char path[PATH_MAX];

    shared_path(path, "volumes");
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return true;
    (void) fprintf(stderr, "skipped: no shared test data at %s\n", shared_root());
    return false;
}

static void join(char ret[PATH_MAX], const char *format, va_list arguments) PRINTF(2, 0);

static void join(char ret[PATH_MAX], const char *format, va_list arguments)
{
    char relative[PATH_MAX];

    int length = vsnprintf(relative, sizeof relative, format, arguments);
    if (length < 0 || (size_t) length >= sizeof relative ||
        snprintf(ret, PATH_MAX, "%s/%s", shared_root(), relative) >= PATH_MAX)
        test_die("a shared path is too long");
}

void shared_path(char ret[PATH_MAX], const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    join(ret, format, arguments);
    va_end(arguments);
}

char *shared_read(size_t *ret_size, const char *format, ...)
{
    char path[PATH_MAX];
    va_list arguments;

    va_start(arguments, format);
    join(path, format, arguments);
    va_end(arguments);
    return test_read_file(path, ret_size);
}

json_t *shared_json(const char *format, ...)
{
    char path[PATH_MAX];
    json_error_t fault;
    va_list arguments;

    va_start(arguments, format);
    join(path, format, arguments);
    va_end(arguments);
    json_t *value = json_load_file(path, JSON_DECODE_ANY | JSON_ALLOW_NUL, &fault);
    if (!value)
        test_die("cannot read %s: line %d: %s", path, fault.line, fault.text);
    return value;
}

static void (*visit_fact)(const char *path, const char *id, const char *bytes, size_t size);

static int visit_file(const char *path, const struct stat *status, int type, struct FTW *position)
{
    char id[NAME_MAX + 1];
    const char *name = path + position->base;
    const char *suffix = strrchr(name, '.');
    size_t size;

    (void) status;
    if (type != FTW_F || name[0] == '.' || !suffix || strcmp(suffix, ".md") != 0)
        return 0;
    AUTO_FREE char *bytes = test_read_file(path, &size);
    (void) snprintf(id, sizeof id, "%.*s", (int) (suffix - name), name);
    visit_fact(path, id, bytes, size);
    return 0;
}

void shared_walk_facts(void (*visit)(const char *path, const char *id, const char *bytes,
                                     size_t size))
{
    char volumes[PATH_MAX];

    shared_path(volumes, "volumes");
    visit_fact = visit;
    if (nftw(volumes, visit_file, 16, FTW_PHYS) != 0)
        test_die("cannot walk %s", volumes);
}
