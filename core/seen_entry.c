#include "core/seen_entry.h"

static void clear(struct seen_entry *entry)
{
    free(entry->path);
    free(entry->problem);
    *entry = (struct seen_entry){0};
}

void seen_list_destroy(struct seen_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        clear(&list->entries[i]);
    free(list->entries);
    *list = (struct seen_list){0};
}
