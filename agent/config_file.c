#include "agent/config.h"

#include <errno.h>
#include <fcntl.h>

static enum status read_all(int fd, const char *path, struct text *ret, struct error *error)
{
    char block[16384];

    for (;;) {
        ssize_t got = read(fd, block, sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set_errno(error, errno, NULL, "%s: cannot be read", path);
        if (got == 0)
            break;
        text_append(ret, block, (size_t) got);
        if (ret->size > CONFIG_FILE_BYTES_MAX)
            break; /* config_read() says so */
    }
    if (!text_ok(ret))
        return error_set(error, STATUS_NO_MEMORY, NULL, "%s: not enough memory", path);
    return STATUS_OK;
}

enum status config_read_file(struct config *config, const char *path, struct text *warnings,
                             struct text *errors, struct error *error)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    AUTO_TEXT struct text bytes = {0};

    if (fd < 0)
        return error_set_errno(error, errno, NULL, "%s: cannot be opened", path);
    enum status status = read_all(fd, path, &bytes, error);
    if (status)
        return status;
    return config_read(config, path, text_string(&bytes), bytes.size, warnings, errors, error);
}
