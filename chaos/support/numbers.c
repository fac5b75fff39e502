#include "chaos/support/numbers.h"

#include <errno.h>
#include <stdlib.h>

bool number_count(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
    char *end = NULL;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value < least || value > most)
        return false;
    *ret = value;
    return true;
}

bool number_real(const char *text, double least, double most, double *ret)
{
    char *end = NULL;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= least && value <= most))
        return false;
    *ret = value;
    return true;
}
