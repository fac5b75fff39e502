#include "agent/config_yaml.h"

static const yaml_char_t *tag_of(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.tag;
    default:
        return NULL;
    }
}

static int nesting_change(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return 1;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return -1;
    default:
        return 0;
    }
}

static enum status refuse(const char *name, const yaml_event_t *event, const char *problem,
                          struct error *error)
{
    return error_set(error, STATUS_INVALID, NULL, "%s:%zu:%zu: %s", name,
                     event->start_mark.line + 1, event->start_mark.column + 1, problem);
}

enum status config_yaml_check(const char *name, const char *bytes, size_t size, struct error *error)
{
    CLEANUP(yaml_parser_delete) yaml_parser_t parser = {0};
    bool ended = false;
    int nesting = 0;

    if (!yaml_parser_initialize(&parser))
        return error_set(error, STATUS_NO_MEMORY, NULL, "%s: not enough memory", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *) bytes, size);
    while (!ended) {
        CLEANUP(yaml_event_delete) yaml_event_t event = {0};
        if (!yaml_parser_parse(&parser, &event))
            return STATUS_OK;
        if (tag_of(&event))
            return refuse(name, &event, "must be without YAML tags", error);
        nesting += nesting_change(&event);
        if (nesting > CONFIG_NESTING_MAX)
            return refuse(name, &event, "must not be nested so deeply", error);
        ended = event.type == YAML_STREAM_END_EVENT;
    }
    return STATUS_OK;
}
