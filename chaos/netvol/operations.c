#include "chaos/netvol/operations.h"

#include <string.h>

#define AS_TEXT(name) #name,
static const char *const names[] = {OPERATIONS(AS_TEXT) "any"};

const char *operation_name(enum operation operation)
{
    return names[operation];
}

bool operation_of(const char *name, enum operation *ret)
{
    for (unsigned i = 0; i <= OPERATION_ANY; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret = (enum operation) i;
            return true;
        }
    }
    return false;
}
