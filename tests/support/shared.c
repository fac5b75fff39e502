#include "tests/support/shared.h"

#include "tests/support/files.h"

#include <stdarg.h>
#include <stdio.h>
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
