#include "core/volume_stuck.h"

#include "core/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEATS 1024
#define NAME_SIZE 128

struct volume_stuck_seat {
    atomic_bool taken;
    pthread_mutex_t lock; /* a leaf; but for those who list, only the seat's thread takes it */
    uint64_t begun_ns;    /* 0: in no call */
    const char *operation;
    int dir_fd;
    char path[NAME_SIZE];
};

static struct volume_stuck_seat seats[SEATS];
static _Thread_local struct volume_stuck_seat *own_seat;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_exit; /* its destructor gives the seat back when the thread ends */

static void give_back(void *seat)
{
    atomic_store(&((struct volume_stuck_seat *) seat)->taken, false);
}

static void prepare(void)
{
    for (unsigned i = 0; i < SEATS; i++)
        pthread_mutex_init(&seats[i].lock, NULL);
    if (pthread_key_create(&at_exit, give_back))
        abort(); /* only where a program has hundreds of keys; ours has a handful */
}

static struct volume_stuck_seat *take_seat(void)
{
    (void) pthread_once(&once, prepare);
    for (unsigned i = 0; i < SEATS; i++) {
        if (atomic_exchange(&seats[i].taken, true))
            continue;
        if (pthread_setspecific(at_exit, &seats[i]) == 0)
            return &seats[i];
        give_back(&seats[i]);
        return NULL;
    }
    return NULL;
}

struct volume_stuck_seat *volume_stuck_seat_here(void)
{
    if (!own_seat)
        own_seat = take_seat();
    return own_seat;
}

void volume_stuck_begin(const char *operation, int dir_fd, const char *path)
{
    size_t length = strnlen(path, NAME_SIZE - 1);

    if (!volume_stuck_seat_here())
        return;
    pthread_mutex_lock(&own_seat->lock);
    own_seat->operation = operation;
    own_seat->dir_fd = dir_fd;
    memcpy(own_seat->path, path, length);
    own_seat->path[length] = '\0';
    own_seat->begun_ns = clock_monotonic_ns();
    pthread_mutex_unlock(&own_seat->lock);
}

void volume_stuck_end(void)
{
    if (!own_seat)
        return;
    pthread_mutex_lock(&own_seat->lock);
    own_seat->begun_ns = 0;
    pthread_mutex_unlock(&own_seat->lock);
}

static uint64_t age_locked(struct volume_stuck_seat *seat, uint64_t now_ns)
{
    return seat->begun_ns == 0 || now_ns < seat->begun_ns ? 0 : now_ns - seat->begun_ns;
}

uint64_t volume_stuck_age(struct volume_stuck_seat *seat)
{
    pthread_mutex_lock(&seat->lock);
    uint64_t age_ns = age_locked(seat, clock_monotonic_ns());
    pthread_mutex_unlock(&seat->lock);
    return age_ns;
}

/* Told of a call that hangs, with its seat locked. */
typedef void (*hanging_sink)(void *context, struct volume_stuck_seat *seat, uint64_t age_ns);

static void visit_hanging(hanging_sink sink, void *context)
{
    uint64_t now_ns = clock_monotonic_ns();

    (void) pthread_once(&once, prepare);
    for (unsigned i = 0; i < SEATS; i++) {
        struct volume_stuck_seat *seat = &seats[i];
        if (!atomic_load(&seat->taken))
            continue;
        pthread_mutex_lock(&seat->lock);
        uint64_t age_ns = age_locked(seat, now_ns);
        if (age_ns >= VOLUME_STUCK_NS && seat->operation != VOLUME_STUCK_FOR_OTHERS)
            sink(context, seat, age_ns);
        pthread_mutex_unlock(&seat->lock);
    }
}

struct tally {
    unsigned count;
    uint64_t oldest_ns;
};

static void count_one(void *context, struct volume_stuck_seat *seat, uint64_t age_ns)
{
    struct tally *tally = context;

    (void) seat;
    tally->count++;
    if (age_ns > tally->oldest_ns)
        tally->oldest_ns = age_ns;
}

unsigned volume_stuck_count(uint64_t *ret_oldest_ns)
{
    struct tally tally = {0};

    visit_hanging(count_one, &tally);
    *ret_oldest_ns = tally.oldest_ns;
    return tally.count;
}

/* The end of a path tells more than its beginning. */
static void write_tail(char ret[VOLUME_STUCK_PATH_SIZE], const char *path)
{
    size_t length = strlen(path);
    size_t cut = length < VOLUME_STUCK_PATH_SIZE ? 0 : length - VOLUME_STUCK_PATH_SIZE + 1;

    memcpy(ret, path + cut, length - cut + 1);
}

/* The link of a descriptor is known to the kernel without asking the file system. */
static void write_path(struct volume_stuck_seat *seat, char ret[VOLUME_STUCK_PATH_SIZE])
{
    char link[40];
    char place[4096];
    char whole[sizeof place + NAME_SIZE + 1];

    (void) snprintf(link, sizeof link, "/proc/self/fd/%d", seat->dir_fd);
    ssize_t length = readlink(link, place, sizeof place - 1);
    place[length < 0 ? 0 : length] = '\0';
    (void) snprintf(whole, sizeof whole, "%s%s%s", place, seat->path[0] && place[0] ? "/" : "",
                    seat->path);
    write_tail(ret, whole);
}

static int older_first(const void *a_address, const void *b_address)
{
    const struct volume_stuck_call *a = a_address;
    const struct volume_stuck_call *b = b_address;

    return (a->age_ns < b->age_ns) - (a->age_ns > b->age_ns);
}

/* The one that the next older call may take the place of: the youngest, once all are filled. */
static struct volume_stuck_call *place_for(struct volume_stuck_call *calls, unsigned count,
                                           unsigned max, uint64_t age_ns)
{
    struct volume_stuck_call *youngest = NULL;

    if (count < max)
        return &calls[count];
    for (unsigned i = 0; i < max; i++) {
        if (!youngest || calls[i].age_ns < youngest->age_ns)
            youngest = &calls[i];
    }
    return youngest && youngest->age_ns < age_ns ? youngest : NULL;
}

struct list {
    struct volume_stuck_call *calls;
    unsigned count, max;
};

static void list_one(void *context, struct volume_stuck_seat *seat, uint64_t age_ns)
{
    struct list *list = context;
    struct volume_stuck_call *call = place_for(list->calls, list->count, list->max, age_ns);

    if (call) {
        call->operation = seat->operation;
        call->age_ns = age_ns;
        write_path(seat, call->path);
    }
    list->count++;
}

unsigned volume_stuck_list(struct volume_stuck_call *ret, unsigned max)
{
    struct list list = {.calls = ret, .max = max};

    visit_hanging(list_one, &list);
    qsort(ret, list.count < max ? list.count : max, sizeof *ret, older_first);
    return list.count;
}
