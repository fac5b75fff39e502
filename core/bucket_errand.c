#include "core/bucket_errand.h"

#include "core/clock.h"
#include "core/errands.h"

#include <string.h>

static bool goes_itself(const struct store *store)
{
    return volume_lookups_are_safe(store->volume) || errands_is_on_one();
}

/* Sends it and waits; STATUS_OK: it is back, and the caller releases `ret`. */
static enum status send_and_wait(struct store *store, struct errand *errand, struct errand **ret,
                                 struct error *error)
{
    *ret = errands_send(store->errands, errand, error);
    if (!*ret)
        return STATUS_UNAVAILABLE;
    enum status status = errands_wait(store->errands, *ret, CLOCK_NEVER, error);
    if (status != STATUS_OK)
        errands_release(store->errands, *ret);
    return status;
}

/* What an errand has brought back. */
static enum status report(enum status status, const struct error *reason, struct error *error)
{
    if (status != STATUS_OK && error)
        *error = *reason;
    return status;
}

/* ---- checks ---- */

struct check_errand {
    struct errand errand;
    struct bucket_check *check;
    bool has_user;
    enum refresh_cause cause;
    char bucket[SCOPE_NAME_MAX + 1];
    struct bucket_verdict verdict;
    enum status status;
    struct error error;
};

static void run_check(struct errand *errand)
{
    struct check_errand *check = (struct check_errand *) errand;

    check->status = bucket_check_run(check->check, check->has_user, check->bucket, check->cause,
                                     &check->verdict, &check->error);
}

/* Two functions, since errands that are equal may stand for each other. */
static void run_quick(struct errand *errand)
{
    run_check(errand);
}

static void run_thorough(struct errand *errand)
{
    run_check(errand);
}

static void destroy_check(struct errand *errand)
{
    free(errand);
}

static enum status create_check(struct bucket_check *check, bool has_user, const char *bucket,
                                enum refresh_cause cause, struct errand **ret, struct error *error)
{
    AUTO_FREE struct check_errand *errand = calloc(1, sizeof *errand);

    if (!errand)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory to look at a user's files");
    enum status status = scope_create(has_user ? bucket : NULL, NULL, &errand->errand.scope, error);
    if (status != STATUS_OK)
        return status;
    errand->errand.run = cause == REFRESH_CAUSE_PASS ? run_quick : run_thorough;
    errand->errand.destroy = destroy_check;
    errand->check = check;
    errand->has_user = has_user;
    errand->cause = cause;
    memcpy(errand->bucket, bucket, strlen(bucket) + 1);
    *ret = &TAKE_PTR(errand)->errand;
    return STATUS_OK;
}

enum status bucket_errand_check(struct store *store, struct bucket_check *check, bool has_user,
                                const char *bucket, enum refresh_cause cause,
                                struct bucket_verdict *ret, struct error *error)
{
    struct errand *errand = NULL;

    if (goes_itself(store))
        return bucket_check_run(check, has_user, bucket, cause, ret, error);
    *ret = (struct bucket_verdict){0};
    enum status status = create_check(check, has_user, bucket, cause, &errand, error);
    if (status == STATUS_OK)
        status = send_and_wait(store, errand, &errand, error);
    if (status != STATUS_OK)
        return status;
    const struct check_errand *back = (struct check_errand *) errand;
    *ret = back->verdict;
    status = report(back->status, &back->error, error);
    errands_release(store->errands, errand);
    return status;
}

/* ---- opening ---- */

struct open_errand {
    struct errand errand;
    const struct volume *volume;
    char path[SCOPE_PATH_MAX];
    int fd;
    enum status status;
    struct error error;
};

static void run_open(struct errand *errand)
{
    struct open_errand *opening = (struct open_errand *) errand;

    opening->status =
        volume_open_dir(opening->volume, -1, opening->path, &opening->fd, &opening->error);
}

static void destroy_open(struct errand *errand)
{
    cleanup_close(&((struct open_errand *) errand)->fd);
    free(errand);
}

static enum status create_open(const struct volume *volume, const char *bucket, const char *path,
                               struct errand **ret, struct error *error)
{
    AUTO_FREE struct open_errand *errand = calloc(1, sizeof *errand);

    if (!errand)
        return error_set(error, STATUS_NO_MEMORY, NULL, "no memory to open a directory");
    enum status status = scope_create(bucket, NULL, &errand->errand.scope, error);
    if (status != STATUS_OK)
        return status;
    errand->errand.run = run_open;
    errand->errand.destroy = destroy_open;
    errand->volume = volume;
    errand->fd = -1;
    memcpy(errand->path, path, strlen(path) + 1);
    *ret = &TAKE_PTR(errand)->errand;
    return STATUS_OK;
}

enum status bucket_errand_open(struct store *store, const char *bucket, const char *path, int *ret,
                               struct error *error)
{
    struct errand *errand = NULL;

    if (goes_itself(store))
        return volume_open_dir(store->volume, -1, path, ret, error);
    enum status status = create_open(store->volume, bucket, path, &errand, error);
    if (status == STATUS_OK)
        status = send_and_wait(store, errand, &errand, error);
    if (status != STATUS_OK)
        return status;
    struct open_errand *back = (struct open_errand *) errand;
    status = report(back->status, &back->error, error);
    if (status == STATUS_OK)
        *ret = TAKE_FD(back->fd);
    errands_release(store->errands, errand);
    return status;
}
