#include "tests/support/memory.h"

#include "tests/support/files.h"

#include <stdio.h>
#include <unistd.h>

long memory_resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        test_die("cannot read /proc/self/statm");
    (void) fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}
