#include "chaos/netvol/trace.h"

#include "core/array.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#define ENTRIES_MAX 500000
#define BYTES_MAX (128u << 20)

static struct {
    _Atomic bool on;
    pthread_mutex_t lock; /* guards the rest */
    char **entries;
    size_t count;
    size_t capacity;
    size_t bytes;
    uint64_t dropped;
    uint64_t last_number;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool trace_is_on(void)
{
    return atomic_load(&trace.on);
}

void trace_switch(bool on)
{
    atomic_store(&trace.on, on);
}

static bool has_room_locked(size_t size)
{
    return trace.count < ENTRIES_MAX && trace.bytes + size <= BYTES_MAX &&
           array_make_room(&trace.entries, trace.count, &trace.capacity, sizeof *trace.entries);
}

void trace_add(struct text *members)
{
    size_t size = 0;
    struct text entry = {0};

    (void) pthread_mutex_lock(&trace.lock);
    text_append_format(&entry, "{\"seq\": %" PRIu64 ", %s}", ++trace.last_number,
                       text_string(members));
    AUTO_FREE char *bytes = text_take(&entry, &size);
    if (bytes && text_ok(members) && has_room_locked(size)) {
        trace.entries[trace.count++] = TAKE_PTR(bytes);
        trace.bytes += size;
    } else {
        trace.dropped++;
    }
    (void) pthread_mutex_unlock(&trace.lock);
    text_destroy(members);
}

void trace_take(struct text *text)
{
    (void) pthread_mutex_lock(&trace.lock);
    text_append_format(text, "{\"dropped\": %" PRIu64 ", \"records\": [", trace.dropped);
    for (size_t i = 0; i < trace.count; i++) {
        text_append_string(text, i ? ", " : "");
        text_append_string(text, trace.entries[i]);
        free(trace.entries[i]);
    }
    free(TAKE_PTR(trace.entries));
    trace.count = 0;
    trace.capacity = 0;
    trace.bytes = 0;
    trace.dropped = 0;
    (void) pthread_mutex_unlock(&trace.lock);
    text_append_string(text, "]}");
}
