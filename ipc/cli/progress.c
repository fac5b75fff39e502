/* progress.c - draws the line. */
#include "ipc/cli/progress.h"

#include "ipc/cli/commands.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS 500
#define TURN_MS 100
#define MS_PER_SECOND 1000u
#define NS_PER_MS 1000000u

/* `lock` guards `is_over`; the rest is set once, but for `is_drawn`, which is the thread's. */
struct progress {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct timespec start;
    const char *command;
    const char *step;
    bool is_over;
    bool is_drawn;
};

/* The moment that lies so far behind the start. */
static struct timespec moment(const struct progress *progress, uint64_t ms)
{
    uint64_t ns = (uint64_t) progress->start.tv_nsec + ms * NS_PER_MS;
    const uint64_t ns_per_second = (uint64_t) MS_PER_SECOND * NS_PER_MS;

    return (struct timespec){
        .tv_sec = progress->start.tv_sec + (time_t) (ns / ns_per_second),
        .tv_nsec = (long) (ns % ns_per_second),
    };
}

static void draw(struct progress *progress, uint64_t ms)
{
    static const char marks[] = "|/-\\";

    (void) fprintf(stderr, "\r\033[K%c memsync %s: %s, %u s", marks[ms / TURN_MS % 4],
                   progress->command, progress->step, (unsigned) (ms / MS_PER_SECOND));
    (void) fflush(stderr);
    progress->is_drawn = true;
}

static void *run(void *context)
{
    struct progress *progress = context;

    (void) pthread_mutex_lock(&progress->lock);
    for (uint64_t ms = PATIENCE_MS; !progress->is_over; ms += TURN_MS) {
        struct timespec until = moment(progress, ms);
        while (!progress->is_over &&
               pthread_cond_timedwait(&progress->changed, &progress->lock, &until) == 0)
            continue;
        if (!progress->is_over)
            draw(progress, ms);
    }
    (void) pthread_mutex_unlock(&progress->lock);
    if (progress->is_drawn)
        (void) fputs("\r\033[K", stderr);
    return NULL;
}

/* Signals are the other thread's affair. */
static bool start_thread(struct progress *progress)
{
    sigset_t all, before;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&progress->thread, NULL, run, progress);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

static bool is_wanted(const struct cli *cli)
{
    const char *term = getenv("TERM");

    return !(cli->options.given & OPTION_JSON) && isatty(STDERR_FILENO) && term &&
           strcmp(term, "dumb") != 0;
}

static void release(struct progress *progress)
{
    (void) pthread_cond_destroy(&progress->changed);
    (void) pthread_mutex_destroy(&progress->lock);
    free(progress);
}

struct progress *progress_begin(const struct cli *cli, const char *step)
{
    struct progress *progress = is_wanted(cli) ? calloc(1, sizeof *progress) : NULL;
    pthread_condattr_t monotonic;

    if (!progress)
        return NULL;
    (void) pthread_mutex_init(&progress->lock, NULL);
    (void) pthread_condattr_init(&monotonic);
    (void) pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void) pthread_cond_init(&progress->changed, &monotonic);
    (void) pthread_condattr_destroy(&monotonic);
    (void) clock_gettime(CLOCK_MONOTONIC, &progress->start);
    progress->command = cli->command->name;
    progress->step = step;
    if (start_thread(progress))
        return progress;
    release(progress);
    return NULL;
}

void progress_end(struct progress **progress)
{
    if (!*progress)
        return;
    (void) pthread_mutex_lock(&(*progress)->lock);
    (*progress)->is_over = true;
    (void) pthread_cond_signal(&(*progress)->changed);
    (void) pthread_mutex_unlock(&(*progress)->lock);
    (void) pthread_join((*progress)->thread, NULL);
    release(*progress);
    *progress = NULL;
}
