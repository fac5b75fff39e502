#include "tests/support/captured_log.h"

#include "tests/support/files.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define EXPECTED_MAX 16

struct captured_line {
    char *text;
    enum log_level level;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct captured_line *lines;
static size_t line_count;
static const char *expected[EXPECTED_MAX];
static size_t expected_count;
static _Thread_local volatile bool is_keeping; /* the compiler thinks that strdup() asks nobody */

bool captured_log_is_keeping(void)
{
    return is_keeping;
}

static void capture(void *context UNUSED, enum log_level level, const char *line)
{
    (void) pthread_mutex_lock(&lock);
    is_keeping = true;
    struct captured_line *larger = reallocarray(lines, line_count + 1, sizeof *lines);
    char *text = strdup(line);
    is_keeping = false;
    if (!larger || !text)
        test_die("no memory for log lines");
    lines = larger;
    lines[line_count++] = (struct captured_line){.text = text, .level = level};
    (void) pthread_cond_broadcast(&arrived);
    (void) pthread_mutex_unlock(&lock);
}

void captured_log_start(void)
{
    log_set_level(LOG_DEBUG);
    log_set_capture(capture, NULL);
}

void captured_log_stop(void)
{
    log_set_capture(NULL, NULL);
    log_set_level(LOG_INFO);
    (void) pthread_mutex_lock(&lock);
    for (size_t i = 0; i < line_count; i++)
        free(lines[i].text);
    free(lines);
    lines = NULL;
    line_count = 0;
    expected_count = 0;
    (void) pthread_mutex_unlock(&lock);
}

static const char *find_locked(const char *part, size_t nth, size_t *ret_count)
{
    size_t count = 0;

    for (size_t i = 0; i < line_count; i++) {
        if (part && !strstr(lines[i].text, part))
            continue;
        if (count++ == nth)
            return lines[i].text;
    }
    *ret_count = count;
    return NULL;
}

static size_t count_locked(const char *part)
{
    size_t count = 0;

    (void) find_locked(part, SIZE_MAX, &count);
    return count;
}

size_t captured_log_count(const char *part)
{
    (void) pthread_mutex_lock(&lock);
    size_t count = count_locked(part);
    (void) pthread_mutex_unlock(&lock);
    return count;
}

const char *captured_log_line(const char *part, size_t nth)
{
    size_t count = 0;

    (void) pthread_mutex_lock(&lock);
    const char *line = find_locked(part, nth, &count);
    (void) pthread_mutex_unlock(&lock);
    return line;
}

bool captured_log_wait(const char *part, size_t count, unsigned timeout_ms)
{
    struct timespec deadline;

    (void) clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += (time_t) (timeout_ms / 1000);
    deadline.tv_nsec += (long) (timeout_ms % 1000) * 1000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    (void) pthread_mutex_lock(&lock);
    while (count_locked(part) < count) {
        if (pthread_cond_timedwait(&arrived, &lock, &deadline) == ETIMEDOUT)
            break;
    }
    bool found = count_locked(part) >= count;
    (void) pthread_mutex_unlock(&lock);
    return found;
}

void captured_log_expect(const char *part)
{
    (void) pthread_mutex_lock(&lock);
    if (expected_count == EXPECTED_MAX)
        test_die("too many expected log lines");
    expected[expected_count++] = part;
    (void) pthread_mutex_unlock(&lock);
}

static bool is_expected_locked(const char *line)
{
    for (size_t i = 0; i < expected_count; i++) {
        if (strstr(line, expected[i]))
            return true;
    }
    return false;
}

const char *captured_log_unexpected(void)
{
    const char *found = NULL;

    (void) pthread_mutex_lock(&lock);
    for (size_t i = 0; i < line_count && !found; i++) {
        if (lines[i].level <= LOG_WARNING && !is_expected_locked(lines[i].text))
            found = lines[i].text;
    }
    (void) pthread_mutex_unlock(&lock);
    return found;
}
