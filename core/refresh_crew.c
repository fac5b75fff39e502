#include "core/refresh_crew.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/refresher.h"
#include "core/thread_join.h"
#include "core/thread_kind.h"
#include "core/volume_stuck.h"

#include <pthread.h>
#include <stdatomic.h>

/* A place for one thread.
 * FREE -> WORKING  start_thread()          the overseer, or whoever starts the crew
 * WORKING -> LOST  refresh_crew_oversee()  its call hangs
 * WORKING or LOST -> ENDED                 the thread itself
 * ENDED -> FREE    refresh_crew_oversee()  once it was joined
 */
enum place_state { PLACE_FREE, PLACE_WORKING, PLACE_LOST, PLACE_ENDED };

struct place {
    struct refresh_crew *crew;
    _Atomic enum place_state state;
    _Atomic(struct volume_stuck_seat *) seat;
    struct index_reader *reader;
    bool urgent_only;
    pthread_t thread;
};

struct refresh_crew {
    struct store *store;
    unsigned count; /* places */
    struct place places[];
};

static void *thread_main(void *context)
{
    struct place *place = context;
    struct store *store = place->crew->store;
    struct refresh_run run;
    struct refresh_result result;

    if (!place->urgent_only)
        thread_kind_set(THREAD_BACKGROUND);
    atomic_store(&place->seat, volume_stuck_seat_here());
    while (atomic_load(&place->state) == PLACE_WORKING &&
           refresh_take(store->refreshes, place->urgent_only, &run))
        refresher_run(store, place->reader, &run, &result);
    atomic_store(&place->state, PLACE_ENDED);
    return NULL;
}

static enum status start_thread(struct refresh_crew *crew, bool urgent_only, struct error *error)
{
    struct place *place = crew->places;

    while (place < crew->places + crew->count && atomic_load(&place->state) != PLACE_FREE)
        place++;
    if (place == crew->places + crew->count)
        return error_set(error, STATUS_BUSY, NULL, "too many refreshers hang");
    place->crew = crew;
    place->urgent_only = urgent_only;
    atomic_store(&place->seat, NULL);
    enum status status = index_reader_create(crew->store->index, &place->reader, error);
    if (status != STATUS_OK)
        return status;
    atomic_store(&place->state, PLACE_WORKING);
    int failed = pthread_create(&place->thread, NULL, thread_main, place);
    if (failed) {
        atomic_store(&place->state, PLACE_FREE);
        index_reader_destroy(&place->reader);
        return error_set_errno(error, failed, NULL, "cannot start a refresher thread");
    }
    return STATUS_OK;
}

enum status refresh_crew_start(struct store *store, unsigned count, struct refresh_crew **ret,
                               struct error *error)
{
    unsigned places = count + 1 + REFRESH_CREW_SPARES;
    struct refresh_crew *crew = calloc(1, sizeof *crew + places * sizeof crew->places[0]);

    if (!crew)
        return STATUS_NO_MEMORY;
    crew->store = store;
    crew->count = places;
    enum status status = start_thread(crew, true, error);
    for (unsigned i = 0; status == STATUS_OK && i < count; i++)
        status = start_thread(crew, false, error);
    if (status != STATUS_OK) {
        refresh_table_stop(store->refreshes);
        (void) !refresh_crew_stop(&crew, CLOCK_NEVER); /* none has had anything to do */
        return status;
    }
    *ret = crew;
    return STATUS_OK;
}

/* ---- overseeing ---- */

static bool hangs(struct place *place)
{
    struct volume_stuck_seat *seat = atomic_load(&place->seat);

    return seat && volume_stuck_age(seat) >= VOLUME_STUCK_NS;
}

static void give_up(struct refresh_crew *crew, struct place *place)
{
    enum place_state expected = PLACE_WORKING;
    struct error error = {0};

    if (start_thread(crew, place->urgent_only, &error) != STATUS_OK) {
        log_debug("refresh.crew", "reason=%s", LOG_VALUE(error.message));
        return;
    }
    /* It may have come back this moment: then there is one more until the next that hangs. */
    (void) atomic_compare_exchange_strong(&place->state, &expected, PLACE_LOST);
}

static void tidy(struct place *place)
{
    pthread_join(place->thread, NULL);
    index_reader_destroy(&place->reader);
    atomic_store(&place->state, PLACE_FREE);
}

void refresh_crew_oversee(struct refresh_crew *crew)
{
    for (unsigned i = 0; i < crew->count; i++) {
        struct place *place = &crew->places[i];

        switch (atomic_load(&place->state)) {
        case PLACE_WORKING:
            if (hangs(place))
                give_up(crew, place);
            break;
        case PLACE_ENDED:
            tidy(place);
            break;
        case PLACE_FREE:
        case PLACE_LOST:
            break;
        }
    }
}

/* ---- the end ---- */

bool refresh_crew_stop(struct refresh_crew **crew_address, uint64_t deadline_ns)
{
    struct refresh_crew *crew = *crew_address;

    for (unsigned i = 0; crew && i < crew->count; i++) {
        struct place *place = &crew->places[i];
        if (atomic_load(&place->state) == PLACE_FREE)
            continue;
        if (!thread_join_by(place->thread, deadline_ns))
            return false;
        index_reader_destroy(&place->reader);
        atomic_store(&place->state, PLACE_FREE);
    }
    free(TAKE_PTR(*crew_address));
    return true;
}
