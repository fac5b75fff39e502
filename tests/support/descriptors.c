#include "tests/support/descriptors.h"

#include "tests/support/files.h"

#include <sys/resource.h>
#include <unistd.h>

static struct rlimit before;

static void limit(const struct rlimit *to)
{
    if (setrlimit(RLIMIT_NOFILE, to) != 0)
        test_die("cannot limit descriptors");
}

void descriptors_leave(unsigned count)
{
    int lowest = dup(STDERR_FILENO);

    if (lowest < 0 || close(lowest) != 0 || getrlimit(RLIMIT_NOFILE, &before) != 0)
        test_die("cannot count descriptors");
    limit(&(struct rlimit){.rlim_cur = (rlim_t) lowest + count, .rlim_max = before.rlim_max});
}

void descriptors_give_back(void)
{
    limit(&before);
}
