/* core/compiler.h - the few compiler features that the whole tree relies on.
 *
 * Locals clean themselves up: a variable marked AUTO_... is released when it leaves its scope, so
 * that every `return` is safe. TAKE_PTR and TAKE_FD hand such a value on to somebody else.
 */
#ifndef MEMSYNC_CORE_COMPILER_H
#define MEMSYNC_CORE_COMPILER_H

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF(text_index, first_index)                                                            \
    __attribute__((__format__(__printf__, text_index, first_index)))
#define UNUSED __attribute__((unused))
#define CLEANUP(function) __attribute__((cleanup(function)))

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* Takes the value out of a self-cleaning variable: the variable becomes NULL (or -1). */
#define TAKE_PTR(pointer)                                                                          \
    ({                                                                                             \
        __typeof__(pointer) taken_ = (pointer);                                                    \
        (pointer) = NULL;                                                                          \
        taken_;                                                                                    \
    })
#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int taken_ = (fd);                                                                         \
        (fd) = -1;                                                                                 \
        taken_;                                                                                    \
    })

/* jansson's iterators and copies take no const, though they only look. */
static inline json_t *json_unconst(const json_t *value)
{
    union {
        const json_t *given;
        json_t *taken;
    } pointer = {.given = value};
    return pointer.taken;
}

static inline void cleanup_free(void *pointer_address)
{
    free(*(void **) pointer_address);
}

static inline void cleanup_close(const int *fd)
{
    if (*fd >= 0)
        (void) close(*fd);
}

static inline void cleanup_json(json_t **value)
{
    json_decref(*value);
}

#define AUTO_FREE CLEANUP(cleanup_free)
#define AUTO_CLOSE CLEANUP(cleanup_close)
#define AUTO_JSON CLEANUP(cleanup_json)

#endif
