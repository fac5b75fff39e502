/* Faults of the index: a file system for SQLite in front of its own, and sqlite3_step(), whose
 * calls the linker sends here (see the Makefile).
 */
#include "chaos/faults/fault.h"
#include "core/compiler.h"
#include "tests/support/files.h"

#include <sqlite3.h>
#include <string.h>

static sqlite3_vfs *below; /* SQLite's own */
static sqlite3_vfs above;

struct file {
    sqlite3_file base;
    sqlite3_file *real; /* lies behind this struct */
};

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct file *) file)->real;
}

/* SQLITE_OK, or what the operation fails with; `detail` is the extended code of an I/O error. */
static int verdict_on(bool writes, const char *what, int detail)
{
    const struct fault_kind *kind = fault_next(FAULT_SQLITE, writes, what);

    if (!kind)
        return SQLITE_OK;
    return kind->code == SQLITE_IOERR ? detail : kind->code;
}

#define CALL_OR_FAIL(writes, detail, done)                                                         \
    ({                                                                                             \
        int result_ = verdict_on(writes, &__func__[sizeof "file_" - 1], detail);                   \
        result_ == SQLITE_OK ? (done) : result_;                                                   \
    })

static int file_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 offset)
{
    return CALL_OR_FAIL(false, SQLITE_IOERR_READ,
                        real_of(file)->pMethods->xRead(real_of(file), bytes, size, offset));
}

static int file_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 offset)
{
    return CALL_OR_FAIL(true, SQLITE_IOERR_WRITE,
                        real_of(file)->pMethods->xWrite(real_of(file), bytes, size, offset));
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return CALL_OR_FAIL(false, SQLITE_IOERR_TRUNCATE,
                        real_of(file)->pMethods->xTruncate(real_of(file), size));
}

static int file_sync(sqlite3_file *file, int flags)
{
    return CALL_OR_FAIL(true, SQLITE_IOERR_FSYNC,
                        real_of(file)->pMethods->xSync(real_of(file), flags));
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    return CALL_OR_FAIL(false, SQLITE_IOERR_FSTAT,
                        real_of(file)->pMethods->xFileSize(real_of(file), ret));
}

static int file_lock(sqlite3_file *file, int lock)
{
    return CALL_OR_FAIL(false, SQLITE_IOERR_LOCK,
                        real_of(file)->pMethods->xLock(real_of(file), lock));
}

static int file_unlock(sqlite3_file *file, int lock)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), lock);
}

static int file_check_lock(sqlite3_file *file, int *ret)
{
    return CALL_OR_FAIL(false, SQLITE_IOERR_CHECKRESERVEDLOCK,
                        real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret));
}

static int file_control(sqlite3_file *file, int operation, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
}

static int file_sector_size(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_characteristics(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret)
{
    return CALL_OR_FAIL(extend != 0, SQLITE_IOERR_SHMMAP,
                        real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, ret));
}

/* Giving a lock back does not fail. */
static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    int result =
        flags & SQLITE_SHM_UNLOCK ? SQLITE_OK : verdict_on(false, "shm_lock", SQLITE_IOERR_SHMLOCK);

    return result == SQLITE_OK
               ? real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags)
               : result;
}

static void file_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int removes)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), removes);
}

/* Version 2: nothing is mapped but the shared memory. */
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

static int fs_open(sqlite3_vfs *fs UNUSED, const char *name, sqlite3_file *file, int flags,
                   int *ret_flags)
{
    struct file *ours = (struct file *) file;

    ours->base.pMethods = NULL;
    ours->real = (sqlite3_file *) &ours[1];
    int result = verdict_on((flags & SQLITE_OPEN_CREATE) != 0, "open", SQLITE_CANTOPEN);
    if (result == SQLITE_OK)
        result = below->xOpen(below, name, ours->real, flags, ret_flags);
    if (result == SQLITE_OK)
        ours->base.pMethods = &methods;
    return result;
}

static int fs_delete(sqlite3_vfs *fs UNUSED, const char *name, int sync)
{
    int result = verdict_on(false, "delete", SQLITE_IOERR_DELETE);

    return result == SQLITE_OK ? below->xDelete(below, name, sync) : result;
}

static int fs_access(sqlite3_vfs *fs UNUSED, const char *name, int flags, int *ret)
{
    int result = verdict_on(false, "access", SQLITE_IOERR_ACCESS);

    return result == SQLITE_OK ? below->xAccess(below, name, flags, ret) : result;
}

void fault_sqlite_set_up(void)
{
    below = sqlite3_vfs_find(NULL);
    if (!below)
        test_die("SQLite has no file system");
    above = *below;
    above.pNext = NULL;
    above.zName = "faulty";
    above.szOsFile = (int) sizeof(struct file) + below->szOsFile;
    above.xOpen = fs_open;
    above.xDelete = fs_delete;
    above.xAccess = fs_access;
    if (sqlite3_vfs_register(&above, 1) != SQLITE_OK)
        test_die("SQLite takes no other file system");
}

int __real_sqlite3_step(sqlite3_stmt *statement);
int __wrap_sqlite3_step(sqlite3_stmt *statement);

int __wrap_sqlite3_step(sqlite3_stmt *statement)
{
    const char *sql = sqlite3_sql(statement);
    const struct fault_kind *kind = fault_next(FAULT_STEP, false, sql ? sql : "");

    return kind ? kind->code : __real_sqlite3_step(statement);
}
