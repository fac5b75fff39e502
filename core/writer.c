#include "core/writer.h"

#include "core/condition.h"
#include "core/json_text.h"
#include "core/log.h"
#include "core/migration.h"
#include "core/volume_stuck.h"
#include "core/write_trial.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define QUEUE_SLOTS 64u
/* The next group waits for the last one's members to come again: this part of the time that the
 * last one took. */
#define GATHER_SHARE 4
#define GATHER_MAX_MS 5
/* How long an answer waits for the scope to be read anew: this, or half of the time that is left.
 */
#define REREAD_WAIT_MS 2000
/* So often those who wait for a leader look whether it hangs. */
#define LEADER_LOOK_NS (100 * NS_PER_MS)

/* WAITS -> LEADS  the last leader, or the caller itself when there is none
 * WAITS -> TAKEN  a leader; LEADS -> TAKEN  the leader itself
 * TAKEN -> DONE   the leader: the answer is there
 * TAKEN -> LEFT   the caller, whose time is up, or who sees that the leader hangs; never while its
 *                 context is used. The leader frees the waiter when it comes back.
 */
enum waiter_state {
    WAITER_WAITS,
    WAITER_TAKEN, /* a leader is at it */
    WAITER_LEADS, /* it is its turn to lead */
    WAITER_DONE,
    WAITER_LEFT,
};

/* One caller of writer_run(), on the heap since its leader may outstay it. What is below `is_used`
 * belongs to the leader while it is TAKEN or LEFT. */
struct waiter {
    struct write_request request; /* its scope is the queue's; `context` is the caller's own */
    struct waiter *next;
    enum waiter_state state;
    bool is_used;             /* the leader has its context in hand */
    bool rests_on_others;     /* it was granted, or refused, against what others were to write */
    unsigned attempts_before; /* the round that is under way */
    enum status status;
    struct error error;
    struct write_result result;
    struct draft_outcome outcome;
    uint64_t
        reread_run; /* of the refresh table: one that is waited for before the answer; 0: none */
};

/* How many wrote lately to a memory, the last one of its slot. */
struct crowd {
    uint64_t hash;     /* of the scope */
    unsigned expected; /* who were answered by the last group, and who waited then */
    uint64_t until_ns; /* monotonic: for so long it is worth waiting for those who were answered */
};

/* Callers who want to write the same agent's memory, in the order in which they came. */
struct group_queue {
    struct scope scope;
    bool has_agent;
    struct waiter *first, **end;
    unsigned waiting; /* from `first` on */
    unsigned users;   /* callers who are in writer_run() with it */
    bool is_led;
    bool is_gathering;                /* its leader waits for others to come */
    struct volume_stuck_seat *leader; /* the calls of its thread; NULL: not known */
    struct group_queue *next;
};

/* `lock` guards the queues and is a leaf; `changed` is told when a waiter's state changes. */
struct writer {
    struct store *store;
    struct writer_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct group_queue *slots[QUEUE_SLOTS];
    struct crowd crowds[QUEUE_SLOTS];
};

enum status writer_create(struct store *store, const struct writer_options *options,
                          struct writer **ret)
{
    struct writer *writer = calloc(1, sizeof *writer);

    if (!writer)
        return STATUS_NO_MEMORY;
    writer->store = store;
    writer->options = *options;
    if (writer->options.gather_max_ms == 0)
        writer->options.gather_max_ms = GATHER_MAX_MS;
    (void) pthread_mutex_init(&writer->lock, NULL);
    condition_init(&writer->changed);
    *ret = writer;
    return STATUS_OK;
}

void writer_destroy(struct writer **writer)
{
    if (!*writer)
        return;
    (void) pthread_cond_destroy(&(*writer)->changed);
    (void) pthread_mutex_destroy(&(*writer)->lock);
    free(*writer);
    *writer = NULL;
}

void write_result_destroy(struct write_result *result)
{
    json_decref(result->upserted);
    json_decref(result->deleted);
    *result = (struct write_result){0};
}

/* ---- queues ---- */

static void waiter_destroy(struct waiter *waiter)
{
    draft_outcome_destroy(&waiter->outcome);
    write_result_destroy(&waiter->result);
    free(waiter);
}

static bool is_queue_of(const struct group_queue *queue, const struct write_request *request)
{
    return queue->has_agent == request->has_agent && scope_equal(&queue->scope, request->scope);
}

static struct group_queue **find_queue_locked(struct writer *writer,
                                              const struct write_request *request)
{
    struct group_queue **link = &writer->slots[scope_hash(request->scope) % QUEUE_SLOTS];

    while (*link && !is_queue_of(*link, request))
        link = &(*link)->next;
    return link;
}

/* NULL without memory. */
static struct group_queue *join_queue_locked(struct writer *writer, struct waiter *waiter)
{
    struct group_queue **link = find_queue_locked(writer, &waiter->request);
    struct group_queue *queue = *link;

    if (!queue) {
        queue = calloc(1, sizeof *queue);
        if (!queue)
            return NULL;
        queue->scope = *waiter->request.scope;
        queue->has_agent = waiter->request.has_agent;
        queue->end = &queue->first;
        *link = queue;
    }
    waiter->request.scope = &queue->scope;
    queue->users++;
    queue->waiting++;
    *queue->end = waiter;
    queue->end = &waiter->next;
    return queue;
}

static void leave_queue_locked(struct writer *writer, struct group_queue *queue)
{
    struct group_queue **link = &writer->slots[scope_hash(&queue->scope) % QUEUE_SLOTS];

    if (--queue->users > 0)
        return;
    while (*link != queue)
        link = &(*link)->next;
    *link = queue->next;
    free(queue);
}

static void remove_waiter_locked(struct group_queue *queue, struct waiter *waiter)
{
    struct waiter **link = &queue->first;

    while (*link && *link != waiter)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = waiter->next;
    queue->waiting--;
    if (queue->end == &waiter->next)
        queue->end = link;
    waiter->next = NULL;
}

/* ---- a group ---- */

struct group {
    struct waiter *members[WRITE_GROUP_MAX];
    size_t count;
};

static struct crowd *crowd_of(struct writer *writer, const struct scope *scope)
{
    return &writer->crowds[scope_hash(scope) % QUEUE_SLOTS];
}

/* Those whom the last commit answered are about to come again, if they write one fact after the
 * other: waiting a little for them makes one commit of what would be two. Who is alone by now waits
 * once.
 */
static void gather(struct writer *writer, struct group_queue *queue)
{
    const struct crowd *crowd = crowd_of(writer, &queue->scope);

    (void) pthread_mutex_lock(&writer->lock);
    queue->is_gathering = true;
    while (crowd->hash == scope_hash(&queue->scope) && queue->waiting < crowd->expected &&
           queue->waiting < WRITE_GROUP_MAX) {
        uint64_t now_ns = clock_monotonic_ns();
        if (now_ns >= crowd->until_ns)
            break;
        struct timespec until = clock_real_after(crowd->until_ns - now_ns);
        (void) pthread_cond_timedwait(&writer->changed, &writer->lock, &until);
    }
    queue->is_gathering = false;
    (void) pthread_mutex_unlock(&writer->lock);
}

static void note_crowd_locked(struct writer *writer, const struct group_queue *queue,
                              size_t answered, uint64_t begun_ns)
{
    struct crowd *crowd = crowd_of(writer, &queue->scope);
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t patience_ns = (now_ns - begun_ns) / GATHER_SHARE;
    uint64_t longest_ns = writer->options.gather_max_ms * NS_PER_MS;

    crowd->hash = scope_hash(&queue->scope);
    crowd->expected = (unsigned) answered + queue->waiting;
    crowd->until_ns = now_ns + (patience_ns < longest_ns ? patience_ns : longest_ns);
}

/* Whoever waits now, the leader first. */
static void take_group(struct writer *writer, struct group_queue *queue, struct group *group)
{
    (void) pthread_mutex_lock(&writer->lock);
    while (queue->first && group->count < WRITE_GROUP_MAX) {
        struct waiter *waiter = queue->first;
        remove_waiter_locked(queue, waiter);
        waiter->state = WAITER_TAKEN;
        group->members[group->count++] = waiter;
    }
    (void) pthread_mutex_unlock(&writer->lock);
}

/* Takes a member's context in hand; false: its caller has left, and the context with it. */
static bool borrow(struct writer *writer, struct waiter *waiter)
{
    (void) pthread_mutex_lock(&writer->lock);
    waiter->is_used = waiter->state != WAITER_LEFT;
    bool is_there = waiter->is_used;
    (void) pthread_mutex_unlock(&writer->lock);
    return is_there;
}

/* Only a caller whose time is up waits for this, and it looks by itself. */
static void give_back(struct writer *writer, struct waiter *waiter)
{
    (void) pthread_mutex_lock(&writer->lock);
    waiter->is_used = false;
    (void) pthread_mutex_unlock(&writer->lock);
}

static void forget_outcome(struct waiter *waiter)
{
    draft_outcome_destroy(&waiter->outcome);
    error_clear(&waiter->error);
    waiter->status = STATUS_OK;
}

/* Asks one member what it wants and puts it into the draft. `ret_later`: it has to wait for the
 * next group. */
static void evaluate(struct writer *writer, struct waiter *waiter, struct draft *draft,
                     bool *ret_later)
{
    const struct write_request *request = &waiter->request;
    AUTO_CHANGE_SET struct change_set set = {0};
    bool rebased = false;

    forget_outcome(waiter);
    waiter->rests_on_others = draft_has_changed(draft);
    waiter->attempts_before = waiter->result.attempts++;
    if (borrow(writer, waiter)) {
        waiter->status = request->build(request->context, draft, &set, &waiter->error);
        give_back(writer, waiter);
    } else {
        waiter->status = error_set(&waiter->error, STATUS_TIMEOUT, NULL, "nobody waits for it");
    }
    *ret_later =
        waiter->status == STATUS_OK && set.has_manifest_revision && draft_has_changed(draft);
    if (*ret_later) {
        waiter->result.attempts = waiter->attempts_before;
        return;
    }
    if (waiter->status == STATUS_OK)
        waiter->status = draft_apply(draft, &set, &waiter->outcome, &rebased, &waiter->error);
    waiter->result.attempts += rebased;
}

/* Members that go into this commit; the others are moved behind them. Returns how many. */
static size_t evaluate_all(struct writer *writer, struct waiter **members, size_t count,
                           struct draft *draft)
{
    struct waiter *later[WRITE_GROUP_MAX] = {0};
    size_t later_count = 0;
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        bool wait_for_next;
        evaluate(writer, members[i], draft, &wait_for_next);
        if (wait_for_next)
            later[later_count++] = members[i];
        else
            members[kept++] = members[i];
    }
    for (size_t i = 0; i < later_count; i++)
        members[kept + i] = later[i];
    return kept;
}

/* One commit of some members, and what came of it. */
struct round {
    size_t done; /* members that were dealt with; they stand first */
    bool is_loaded;
    bool evaluated;
    bool is_misled; /* nothing was committed: the index has to learn of a broken file first */
    bool changed;
    bool contradicts; /* files are not what the index, which counts as in step, shows of them */
    int64_t revision; /* of the manifest before */
    char last_updated[WRITE_LAST_UPDATED_SIZE];
    enum status status;
    struct error error;
};

/* What the most demanding of them needs. */
static enum write_source_need need_of(struct waiter *const *members, size_t count)
{
    enum write_source_need need = WRITE_SOURCE_SOME;

    for (size_t i = 0; i < count; i++) {
        if (members[i]->request.need > need)
            need = members[i]->request.need;
    }
    return need;
}

static enum status commit_round(struct writer *writer, struct write_session *session,
                                struct waiter **members, bool was_reread, struct round *round)
{
    AUTO_WRITE_SOURCE struct write_source source = {0};
    AUTO_DRAFT struct draft *draft = NULL;
    const struct write_request *first = &members[0]->request;
    struct error *error = &round->error;
    enum status status = STATUS_OK;

    if (first->has_agent)
        status =
            write_source_open(session, first->scope, need_of(members, round->done), &source, error);
    if (status != STATUS_OK)
        return status;
    struct draft_options options = {
        .scope = first->scope,
        .has_agent = first->has_agent,
        .manifest = session->has_manifest ? &session->manifest : NULL,
        .wall_ns = session->wall_ns,
        .source = write_source_functions(&source),
    };
    if (draft_create(&options, &draft) != STATUS_OK)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a write");
    round->revision = draft_revision(draft);
    write_session_last_updated(session, round->last_updated);
    round->done = evaluate_all(writer, members, round->done, draft);
    round->evaluated = true;
    round->changed = draft_has_changed(draft);
    if (first->has_agent)
        write_source_check(&source, draft);
    round->contradicts = source.contradicts;
    write_source_close(&source);
    round->is_misled = source.is_misled && !was_reread;
    if (round->is_misled)
        return STATUS_OK;
    return write_session_commit(session, draft, source.is_empty, error);
}

/* Whether a round that failed says nothing of what a member asked for. One that found all as it
 * should be, or not, before anybody changed something has its answer. */
static bool shares_failure(const struct waiter *waiter, const struct round *round)
{
    return !round->evaluated || waiter->rests_on_others ||
           (waiter->status == STATUS_OK && waiter->outcome.changed);
}

/* The answer of a member that was part of a round. */
static void answer(struct writer *writer, struct waiter *waiter, struct write_session *session,
                   const struct round *round)
{
    struct write_result *result = &waiter->result;

    if (round->status != STATUS_OK && shares_failure(waiter, round)) {
        forget_outcome(waiter);
        waiter->status = round->status;
        waiter->error = round->error;
    }
    if (waiter->status != STATUS_OK)
        return;
    bool moved = round->status == STATUS_OK && round->changed;
    result->revision = round->revision + moved;
    result->changed = waiter->outcome.changed;
    if (moved)
        clock_format(session->wall_ns, result->last_updated);
    else
        (void) snprintf(result->last_updated, sizeof result->last_updated, "%s",
                        round->last_updated);
    result->upserted = waiter->outcome.upserted;
    result->deleted = waiter->outcome.deleted;
    waiter->outcome = (struct draft_outcome){0};
    if (waiter->request.after && borrow(writer, waiter)) {
        waiter->request.after(waiter->request.context, session);
        give_back(writer, waiter);
    }
}

/* Whether a member of a round that was overtaken starts again. */
static bool tries_again(const struct waiter *waiter, const struct round *round)
{
    return round->status == STATUS_CONFLICT && round->evaluated && shares_failure(waiter, round) &&
           waiter->request.retries && waiter->result.attempts < WRITE_ATTEMPTS_MAX;
}

/* A fault of one member's change, not of the volume, or of an index that not all of them need: the
 * others need not suffer from it. */
static bool is_about_one(struct waiter *const *members, const struct round *round)
{
    if (round->done <= 1 || round->status == STATUS_OK)
        return false;
    if (!round->evaluated)
        return round->is_loaded && need_of(members, round->done) != WRITE_SOURCE_SOME;
    return round->status == STATUS_INVALID || round->status == STATUS_TOO_LARGE ||
           round->status == STATUS_CORRUPT;
}

/* Commits members until each has its answer. More than one round is needed after conflicts, for
 * members that expect a manifest revision, when one of them cannot be written, and when the index
 * did not know that a file is broken. True: the index has to read the scope's files anew, since
 * they contradict it and no other sign tells it. */
static bool commit_members(struct writer *writer, struct write_session *session,
                           struct waiter **members, size_t count)
{
    bool contradicts = false;
    bool is_loaded = true;
    bool one_by_one = false;
    bool was_reread = false;

    while (count > 0) {
        struct round round = {.done = one_by_one ? 1 : count};
        size_t kept = 0;
        round.status = is_loaded ? STATUS_OK : write_session_load(session, &round.error);
        round.is_loaded = round.status == STATUS_OK;
        if (round.is_loaded)
            round.status = commit_round(writer, session, members, was_reread, &round);
        is_loaded = false;
        bool about_one = is_about_one(members, &round);
        if (round.is_misled)
            write_source_reread(session, members[0]->request.scope);
        was_reread = was_reread || round.is_misled;
        contradicts = !round.is_misled && (contradicts || round.contradicts);
        one_by_one = one_by_one || about_one;
        if (round.is_misled || about_one) {
            for (size_t i = 0; round.evaluated && i < round.done; i++)
                members[i]->result.attempts = members[i]->attempts_before;
            continue;
        }
        for (size_t i = 0; i < round.done; i++) {
            if (tries_again(members[i], &round))
                members[kept++] = members[i];
            else
                answer(writer, members[i], session, &round);
        }
        memmove(members + kept, members + round.done,
                (count - round.done) * sizeof(struct waiter *));
        count = kept + count - round.done;
    }
    return contradicts;
}

static void count_answer(struct store_counters *counters, const struct waiter *waiter)
{
    if (waiter->status == STATUS_CONFLICT)
        atomic_fetch_add(&counters->write_conflicts, 1);
    else if (waiter->status != STATUS_OK)
        atomic_fetch_add(&counters->writes_failed, 1);
    else if (waiter->result.changed)
        atomic_fetch_add(&counters->writes, 1);
    else
        atomic_fetch_add(&counters->writes_unchanged, 1);
}

/* Nobody's work is cut short because the leader had less time. */
static uint64_t last_deadline(const struct group *group)
{
    uint64_t last_ns = 0;

    for (size_t i = 0; i < group->count; i++) {
        uint64_t deadline_ns = group->members[i]->request.deadline_ns;
        last_ns = deadline_ns > last_ns ? deadline_ns : last_ns;
    }
    return last_ns;
}

/* Before anything is written a memory of an earlier layout becomes one of today. */
static enum status migrate_first(struct write_session *session, const struct scope *scope,
                                 bool has_agent, struct error *error)
{
    AUTO_MIGRATION_RESULT struct migration_result result = {0};
    const struct migration_request request = {.scope = scope, .has_agent = has_agent};

    return migration_run(session, &request, &result, error);
}

/* "Read it again" is no advice while the index shows what the writer was refused for not knowing.
 * Without memory for the run the next full refresh puts it right. */
static uint64_t ask_for_reread(struct writer *writer, const struct scope *scope)
{
    uint64_t number = 0;

    log_notice(
        "write.contradiction",
        "user=%s agent=%s what=\"fact files were changed without their manifest; the scope is "
        "read anew\"",
        LOG_VALUE(scope->has_user ? scope->user : NULL), scope->agent);
    return refresh_request(writer->store->refreshes, scope, REFRESH_URGENT, REFRESH_CAUSE_WRITE,
                           REFRESH_WISH_FULL, &number) == STATUS_OK
               ? number
               : 0;
}

/* Each caller for itself, so that nobody who comes later waits as well. */
static void await_reread(struct writer *writer, const struct waiter *waiter,
                         const struct write_request *request)
{
    struct refresh_result result;
    uint64_t left_ms = (uint64_t) clock_remaining_ms(request->deadline_ns) / 2;

    if (waiter->reread_run != 0)
        (void) refresh_wait(writer->store->refreshes, request->scope, waiter->reread_run,
                            clock_deadline_ms(left_ms < REREAD_WAIT_MS ? left_ms : REREAD_WAIT_MS),
                            &result);
}

/* The leader's work; its own answer is among the group's. */
static void lead(struct writer *writer, struct group_queue *queue, struct waiter *self)
{
    struct write_session session;
    struct group group = {0};
    bool behind = false;
    bool contradicts = false;
    uint64_t reread_run = 0;
    const struct write_session_options options = {
        .store = writer->store,
        .scope = self->request.scope,
        .thread = self->request.thread,
        .lock_timeout_ms = writer->options.lock_timeout_ms,
        .deadline_ns = self->request.deadline_ns,
    };

    gather(writer, queue);
    uint64_t begun_ns = clock_monotonic_ns();
    self->status = write_session_begin(&options, &session, &self->error);
    if (self->status == STATUS_OK)
        self->status =
            migrate_first(&session, self->request.scope, self->request.has_agent, &self->error);
    if (self->status == STATUS_OK) {
        take_group(writer, queue, &group);
        struct waiter *members[WRITE_GROUP_MAX];
        memcpy(members, group.members, group.count * sizeof(struct waiter *));
        session.deadline_ns = last_deadline(&group);
        contradicts = commit_members(writer, &session, members, group.count);
    } else {
        (void) pthread_mutex_lock(&writer->lock);
        remove_waiter_locked(queue, self);
        (void) pthread_mutex_unlock(&writer->lock);
        group.members[group.count++] = self;
    }
    write_session_end(&session, &behind);
    if (contradicts)
        reread_run = ask_for_reread(writer, self->request.scope);

    (void) pthread_mutex_lock(&writer->lock);
    for (size_t i = 0; i < group.count; i++) {
        struct waiter *waiter = group.members[i];
        waiter->result.index_behind = behind && waiter->result.changed;
        waiter->reread_run = waiter->result.changed ? 0 : reread_run;
        count_answer(&writer->store->counters, waiter);
        if (waiter->state == WAITER_LEFT)
            waiter_destroy(waiter);
        else
            waiter->state = WAITER_DONE;
    }
    note_crowd_locked(writer, queue, group.count, begun_ns);
    queue->leader = NULL;
    if (queue->first)
        queue->first->state = WAITER_LEADS;
    else
        queue->is_led = false;
    (void) pthread_cond_broadcast(&writer->changed);
    (void) pthread_mutex_unlock(&writer->lock);
}

/* ---- callers ---- */

/* Whether the leader is in a call to the volume that may never return. */
static bool leader_hangs_locked(const struct group_queue *queue)
{
    return queue->leader && volume_stuck_age(queue->leader) >= VOLUME_LOCK_PATIENCE_NS;
}

/* Gives up; the waiter is gone afterwards, or its leader's. */
static enum status leave_locked(struct writer *writer, struct group_queue *queue,
                                struct waiter *waiter, bool hangs, struct error *error)
{
    enum status status = hangs ? STATUS_BUSY : STATUS_TIMEOUT;

    if (waiter->state == WAITER_TAKEN) {
        waiter->state = WAITER_LEFT; /* what comes of it is counted by the leader */
        (void) error_set(error, STATUS_TIMEOUT, NULL, "unconfirmed: the commit is still under way");
        error_add_member(error, "reason", "\"unconfirmed\"");
        return STATUS_TIMEOUT;
    }
    remove_waiter_locked(queue, waiter);
    waiter_destroy(waiter);
    atomic_fetch_add(&writer->store->counters.writes_failed, 1);
    (void) error_set(error, status, NULL, "%s",
                     hangs ? "the volume does not answer: a write of this memory hangs there"
                           : "lock timeout: other writes to this memory were not done in time");
    error_add_member(error, "attempts", "0");
    return status;
}

/* Waits for an answer or for the turn to lead. Where calls may hang it gives up when the time is up
 * or the leader hangs, so that a call that never returns costs the leader's thread alone; only
 * while the leader reads for this very caller it has to stay. Not OK: it has given up. */
static enum status wait_locked(struct writer *writer, struct group_queue *queue,
                               struct waiter *waiter, struct error *error)
{
    bool may_hang = !volume_lookups_are_safe(writer->store->volume);

    while (waiter->state == WAITER_WAITS || waiter->state == WAITER_TAKEN) {
        if (waiter->state == WAITER_TAKEN && !may_hang) {
            (void) pthread_cond_wait(&writer->changed, &writer->lock);
            continue;
        }
        uint64_t left_ns = (uint64_t) clock_remaining_ms(waiter->request.deadline_ns) * NS_PER_MS;
        bool hangs = leader_hangs_locked(queue);
        if ((left_ns == 0 || hangs) && !waiter->is_used)
            return leave_locked(writer, queue, waiter, hangs, error);
        bool in_steps = may_hang && (left_ns == 0 || left_ns > LEADER_LOOK_NS);
        struct timespec until = clock_real_after(in_steps ? LEADER_LOOK_NS : left_ns);
        (void) pthread_cond_timedwait(&writer->changed, &writer->lock, &until);
    }
    return STATUS_OK;
}

/* Until the waiter has its answer, perhaps by leading others to theirs. Not OK: it has given up,
 * and is gone. */
static enum status take_turn(struct writer *writer, struct group_queue *queue,
                             struct waiter *waiter, struct error *error)
{
    bool may_hang = !volume_lookups_are_safe(writer->store->volume);

    (void) pthread_mutex_lock(&writer->lock);
    enum status status = wait_locked(writer, queue, waiter, error);
    bool leads = status == STATUS_OK && waiter->state == WAITER_LEADS;
    if (leads)
        queue->leader = may_hang ? volume_stuck_seat_here() : NULL;
    (void) pthread_mutex_unlock(&writer->lock);
    if (leads)
        lead(writer, queue, waiter);
    return status;
}

/* NULL without memory. */
static struct group_queue *join(struct writer *writer, struct waiter *waiter)
{
    (void) pthread_mutex_lock(&writer->lock);
    struct group_queue *queue = join_queue_locked(writer, waiter);
    if (queue && !queue->is_led) {
        queue->is_led = true;
        waiter->state = WAITER_LEADS;
    } else if (queue && queue->is_gathering) {
        (void) pthread_cond_broadcast(&writer->changed);
    }
    (void) pthread_mutex_unlock(&writer->lock);
    return queue;
}

static enum status take_answer(struct waiter *waiter, struct write_result *ret, struct error *error)
{
    if (waiter->status != STATUS_OK) {
        if (error)
            *error = waiter->error;
        error_add_member(error, "attempts", "%u", waiter->result.attempts);
        return waiter->status;
    }
    *ret = waiter->result;
    waiter->result = (struct write_result){0};
    return STATUS_OK;
}

enum status writer_run(struct writer *writer, const struct write_request *request,
                       struct write_result *ret, struct error *error)
{
    struct waiter *waiter = calloc(1, sizeof *waiter);
    struct group_queue *queue = NULL;

    if (waiter) {
        waiter->request = *request;
        queue = join(writer, waiter);
    }
    if (!queue) {
        free(waiter);
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory for a write");
    }
    enum status status = take_turn(writer, queue, waiter, error);
    (void) pthread_mutex_lock(&writer->lock);
    leave_queue_locked(writer, queue);
    (void) pthread_mutex_unlock(&writer->lock);
    if (status != STATUS_OK)
        return status;

    await_reread(writer, waiter, request);
    status = take_answer(waiter, ret, error);
    waiter_destroy(waiter);
    return status;
}

static enum status begin_alone(const struct writer *writer, const struct scope *scope,
                               uint64_t deadline_ns, unsigned thread, bool only_looks,
                               struct write_session *ret, struct error *error)
{
    const struct write_session_options options = {
        .store = writer->store,
        .scope = scope,
        .thread = thread,
        .lock_timeout_ms = writer->options.lock_timeout_ms,
        .deadline_ns = deadline_ns,
        .only_looks = only_looks,
    };

    enum status status = write_session_begin(&options, ret, error);
    if (status != STATUS_OK)
        error_add_member(error, "attempts", "0");
    return status;
}

enum status writer_run_alone(struct writer *writer, const struct scope *scope, uint64_t deadline_ns,
                             unsigned thread, write_work work, void *context, bool *ret_behind,
                             struct error *error)
{
    struct write_session session;

    enum status status = begin_alone(writer, scope, deadline_ns, thread, false, &session, error);
    if (status == STATUS_OK)
        status = work(context, &session, error);
    write_session_end(&session, ret_behind);
    return status;
}

enum status writer_migrate(struct writer *writer, const struct migration_request *request,
                           uint64_t deadline_ns, unsigned thread, struct migration_result *ret,
                           struct error *error)
{
    struct write_session session;

    enum status status =
        begin_alone(writer, request->scope, deadline_ns, thread, false, &session, error);
    if (status == STATUS_OK)
        status = migration_run(&session, request, ret, error);
    write_session_end(&session, NULL);
    return status;
}

static void take_trial(const struct write_session *session, struct draft_outcome *outcome,
                       struct write_result *ret)
{
    *ret = (struct write_result){
        .revision = session->has_manifest ? session->manifest.revision : 0,
        .changed = outcome->changed,
        .attempts = 1,
    };
    ret->upserted = TAKE_PTR(outcome->upserted);
    ret->deleted = TAKE_PTR(outcome->deleted);
    write_session_last_updated(session, ret->last_updated);
}

enum status writer_try(struct writer *writer, const struct write_request *request,
                       struct write_result *ret, bool *ret_unmigrated, struct error *error)
{
    AUTO_OUTCOME struct draft_outcome outcome = {0};
    struct write_session session;
    const struct write_trial trial = {
        .build = request->build,
        .context = request->context,
        .scope = request->scope,
        .need = request->need,
    };

    enum status status = begin_alone(writer, request->scope, request->deadline_ns, request->thread,
                                     true, &session, error);
    if (status == STATUS_OK)
        status = write_trial_run(&session, &trial, &outcome, ret_unmigrated, error);
    if (status == STATUS_OK)
        take_trial(&session, &outcome, ret);
    write_session_end(&session, NULL);
    return status;
}
