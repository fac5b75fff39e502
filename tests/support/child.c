#include "tests/support/child.h"

#include <unistd.h>

/* libgcov's, where lines are counted (see the Makefile). */
void __gcov_dump(void) __attribute__((weak));

void child_exit(int code)
{
    if (__gcov_dump)
        __gcov_dump();
    _exit(code);
}
