#include "chaos/support/options.h"

#include "chaos/support/numbers.h"

#include <inttypes.h>
#include <stdio.h>

bool option_refuse(const char *option, const char *text, const char *allowed)
{
    (void) fprintf(stderr, "--%s %s: must be %s\n", option, text, allowed);
    return false;
}

bool option_no_rest(int argc, char **argv, int next)
{
    if (next == argc)
        return true;
    (void) fprintf(stderr, "what is %s? There are options only (--help)\n", argv[next]);
    return false;
}

bool option_count(const char *option, const char *text, uint64_t least, uint64_t most,
                  uint64_t *ret)
{
    char allowed[96];

    if (number_count(text, least, most, ret))
        return true;
    (void) snprintf(allowed, sizeof allowed, "a number from %" PRIu64 " to %" PRIu64, least, most);
    return option_refuse(option, text, allowed);
}

bool option_unsigned(const char *option, const char *text, unsigned least, unsigned most,
                     unsigned *ret)
{
    uint64_t value = 0;

    if (!option_count(option, text, least, most, &value))
        return false;
    *ret = (unsigned) value;
    return true;
}

bool option_seconds(const char *option, const char *text, double least, double *ret)
{
    char allowed[96];

    if (number_real(text, least, OPTION_SECONDS_MOST, ret))
        return true;
    (void) snprintf(allowed, sizeof allowed, "seconds, from %g to %.0f", least,
                    OPTION_SECONDS_MOST);
    return option_refuse(option, text, allowed);
}
