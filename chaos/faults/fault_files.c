/* Faults of the volume's calls: a judge of the tests' table of calls. */
#include "chaos/faults/fault.h"
#include "tests/support/temp_calls.h"

static bool writes(enum temp_call call)
{
    switch (call) {
    case TEMP_CALL_WRITE:
    case TEMP_CALL_SYNC:
    case TEMP_CALL_RENAME:
    case TEMP_CALL_RENAME_NEW:
    case TEMP_CALL_LINK:
    case TEMP_CALL_UNLINK:
    case TEMP_CALL_MKDIR:
        return true;
    default:
        return false;
    }
}

static bool is_size(enum temp_call call)
{
    return call == TEMP_CALL_READ_SIZE || call == TEMP_CALL_WRITE_SIZE;
}

static struct temp_ruling judge(enum temp_call call)
{
    const struct fault_kind *kind = fault_counted();

    if (!kind || kind->halves != is_size(call))
        return (struct temp_ruling){0};
    kind = fault_next(FAULT_FILE, writes(call), temp_call_name(call));
    if (!kind)
        return (struct temp_ruling){0};
    return (struct temp_ruling){
        .fate = kind->halves         ? TEMP_HALVES
                : kind->loses_answer ? TEMP_LOSES_ANSWER
                                     : TEMP_FAILS,
        .sys_errno = kind->code,
    };
}

void fault_files_set_up(void)
{
    temp_calls_ask(judge);
}
