#include "chaos/faults/places.h"

#include "core/signature.h"
#include "tests/support/files.h"

#include <execinfo.h>
#include <pthread.h>
#include <stdbool.h>

#define FRAMES_MAX 128

/* Where the linker has put the program. */
extern const char __executable_start;
extern const char etext;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_ours(const void *address)
{
    return (const char *) address >= &__executable_start && (const char *) address < &etext;
}

static uint64_t hash_stack(void)
{
    void *frames[FRAMES_MAX];
    int count = backtrace(frames, FRAMES_MAX);
    size_t kept = 0;

    for (int i = 0; i < count; i++) {
        if (is_ours(frames[i]))
            frames[kept++] = frames[i];
    }
    return signature_digest(frames, kept * sizeof frames[0]);
}

void places_set_up(void)
{
    void *frame;

    (void) backtrace(&frame, 1);
}

void places_note(struct places *places, uint64_t number)
{
    uint64_t stack = hash_stack();
    size_t i = 0;

    (void) pthread_mutex_lock(&lock);
    while (i < places->count && places->stacks[i] != stack)
        i++;
    if (i == PLACES_MAX)
        test_die("more than %d places", PLACES_MAX);
    if (i == places->count) {
        places->stacks[i] = stack;
        places->first[i] = number;
        places->count++;
    }
    (void) pthread_mutex_unlock(&lock);
}
