#include "chaos/support/jobs.h"

#include "tests/support/child.h"
#include "tests/support/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
    pid_t child;
    FILE *output;
    bool has_ended;
    int status;
};

static void start(struct job *job, size_t number, job_work work, const void *context)
{
    job->output = tmpfile();
    if (!job->output)
        test_die("no place for what a job prints");
    (void) fflush(NULL);
    job->child = fork();
    if (job->child < 0)
        test_die("cannot fork");
    if (job->child > 0)
        return;
    if (dup2(fileno(job->output), STDOUT_FILENO) < 0 ||
        dup2(fileno(job->output), STDERR_FILENO) < 0)
        _exit(2);
    bool passed = work(context, number);
    (void) fflush(NULL);
    child_exit(passed ? 0 : 1);
}

/* Waits for any of them. */
static void wait_for_one(struct job *jobs, size_t started)
{
    int status = 0;
    pid_t child;

    while ((child = wait(&status)) < 0) {
        if (errno != EINTR)
            test_die("lost a job");
    }
    for (size_t i = 0; i < started; i++) {
        if (jobs[i].child == child && !jobs[i].has_ended) {
            jobs[i].has_ended = true;
            jobs[i].status = status;
        }
    }
}

static void print_output(struct job *job)
{
    char bytes[4096];
    size_t size;

    rewind(job->output);
    while ((size = fread(bytes, 1, sizeof bytes, job->output)) > 0)
        (void) fwrite(bytes, 1, size, stdout);
    (void) fclose(job->output);
    if (WIFSIGNALED(job->status))
        (void) printf("FAILED: ended by signal %d\n", WTERMSIG(job->status));
    (void) fflush(stdout);
}

static bool has_passed(const struct job *job)
{
    return WIFEXITED(job->status) && WEXITSTATUS(job->status) == 0;
}

struct job_counts jobs_run(size_t count, unsigned at_once, bool until_failure, job_work work,
                           const void *context)
{
    AUTO_FREE struct job *jobs = calloc(count + 1, sizeof *jobs);
    struct job_counts counts = {0};
    size_t started = 0;
    size_t running = 0;

    if (!jobs)
        test_die("no memory for jobs");
    for (size_t next = 0; next < count;) {
        while (started < count && running < at_once) {
            start(&jobs[started], started, work, context);
            started++;
            running++;
        }
        wait_for_one(jobs, started);
        running--;
        for (; next < started && jobs[next].has_ended; next++) {
            print_output(&jobs[next]);
            counts.passed += has_passed(&jobs[next]);
            counts.failed += !has_passed(&jobs[next]);
            if (until_failure && counts.failed > 0)
                count = started;
        }
    }
    return counts;
}
