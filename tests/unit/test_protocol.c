#include "ipc/protocol.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

/* Criterion keeps truth values in bit fields and texts in pointers to char. */
#pragma GCC diagnostic ignored "-Wconversion"
#define STR(text) ((char *) (uintptr_t) (text))

static int read_text(const char *text, struct request *ret, struct error *error)
{
    error_clear(error);
    return protocol_read_request(text, strlen(text), ret, error);
}

Test(protocol, a_request_is_read_into_id_method_and_params)
{
    struct request request;
    struct error error;

    int code = read_text("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"search\",\"params\":"
                         "{\"query\":\"tea\"},\"extra\":1}",
                         &request, &error);
    cr_assert(zero(int, code), "%s", error.message);
    cr_expect(eq(str, STR(request.id), STR("7")));
    cr_expect(not(request.is_notification));
    cr_expect(eq(str, STR(request.method), STR("search")));
    cr_expect(
        eq(str, STR(json_string_value(json_object_get(request.params, "query"))), STR("tea")));
    request_clear(&request);
}

Test(protocol, ids_are_echoed_exactly)
{
    static const struct {
        const char *id;
        const char *echo; /* NULL: the same text */
    } cases[] = {
        {"0", NULL},
        {"-1", NULL},
        {"9223372036854775807", NULL},
        {"-9223372036854775808", NULL},
        {"9223372036854775808", NULL},
        {"123456789012345678901234567890123456789012345678901234567890", NULL},
        {"-98765432109876543210987654321", NULL},
        {"\"\"", NULL},
        {"\"a b\"", NULL},
        {"\"quote \\\" and \\\\\"", NULL},
        {"\"\xf0\x9f\x8d\xb5\"", NULL},
        {"\"\\u0041\"", "\"A\""},
        {"\"\\ud800\"", NULL}, /* a lone surrogate */
        {"null", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text text = {0};
        AUTO_TEXT struct text reply = {0};
        AUTO_TEXT struct text expected = {0};
        struct request request;
        struct error error;
        const char *echo = cases[i].echo ? cases[i].echo : cases[i].id;

        text_append_format(&text, "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":%s}",
                           cases[i].id);
        cr_assert(zero(int, read_text(text_string(&text), &request, &error)), "row %zu: %s", i,
                  error.message);
        protocol_write_result(&reply, request.id, "{}", 2);
        text_append_format(&expected, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", echo);
        cr_expect(eq(str, STR(text_string(&reply)), STR(text_string(&expected))), "row %zu", i);
        request_clear(&request);
    }
}

Test(protocol, an_id_of_256_bytes_is_the_longest)
{
    static const struct {
        size_t length;
        bool quoted;
        int code;
    } cases[] = {
        {256, true, 0},
        {257, true, PROTOCOL_INVALID_REQUEST},
        {256, false, 0},
        {257, false, PROTOCOL_INVALID_REQUEST},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text text = {0};
        struct request request;
        struct error error;
        const char *quote = cases[i].quoted ? "\"" : "";

        text_append_format(&text, "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":%s", quote);
        for (size_t n = 0; n < cases[i].length; n++)
            text_append_char(&text, '8');
        text_append_format(&text, "%s}", quote);
        cr_expect(eq(int, read_text(text_string(&text), &request, &error), cases[i].code),
                  "row %zu", i);
        if (cases[i].code)
            cr_expect(eq(str, STR(request.id), STR("null")), "row %zu", i);
        request_clear(&request);
    }
}

Test(protocol, a_request_without_id_is_a_notification_that_is_answered_with_null)
{
    struct request request;
    struct error error;

    cr_assert(zero(int, read_text("{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}", &request, &error)));
    cr_expect(request.is_notification);
    cr_expect(eq(str, STR(request.id), STR("null")));
    cr_expect(eq(sz, json_object_size(request.params), 0));
    request_clear(&request);
}

Test(protocol, what_is_wrong_has_its_code_and_the_id_where_it_could_be_read)
{
    static const struct {
        const char *text;
        int code;
        const char *id;
    } cases[] = {
        {"", PROTOCOL_PARSE_ERROR, "null"},
        {" ", PROTOCOL_PARSE_ERROR, "null"},
        {"{", PROTOCOL_PARSE_ERROR, "null"},
        {"hello", PROTOCOL_PARSE_ERROR, "null"},
        {"\xef\xbb\xbf{}", PROTOCOL_PARSE_ERROR, "null"},
        {"{\"id\":1} x", PROTOCOL_PARSE_ERROR, "null"},
        {"{\"id\":\"\xff\"}", PROTOCOL_PARSE_ERROR, "null"},
        {"[]", PROTOCOL_INVALID_REQUEST, "null"},
        {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", PROTOCOL_INVALID_REQUEST, "null"},
        {"7", PROTOCOL_INVALID_REQUEST, "null"},
        {"\"ping\"", PROTOCOL_INVALID_REQUEST, "null"},
        {"null", PROTOCOL_INVALID_REQUEST, "null"},
        {"{}", PROTOCOL_INVALID_REQUEST, "null"},
        {"{\"id\":5}", PROTOCOL_INVALID_REQUEST, "5"},
        {"{\"jsonrpc\":\"1.0\",\"id\":5,\"method\":\"ping\"}", PROTOCOL_INVALID_REQUEST, "5"},
        {"{\"jsonrpc\":2.0,\"id\":5,\"method\":\"ping\"}", PROTOCOL_INVALID_REQUEST, "5"},
        {"{\"jsonrpc\":\"2.0\",\"id\":5}", PROTOCOL_INVALID_REQUEST, "5"},
        {"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"\"}", PROTOCOL_INVALID_REQUEST, "5"},
        {"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":7}", PROTOCOL_INVALID_REQUEST, "5"},
        {"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\\u0000\"}", PROTOCOL_INVALID_REQUEST,
         "5"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", PROTOCOL_INVALID_REQUEST, "null"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.0,\"method\":\"ping\"}", PROTOCOL_INVALID_REQUEST, "null"},
        {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}", PROTOCOL_INVALID_REQUEST, "null"},
        {"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"ping\"}", PROTOCOL_INVALID_REQUEST, "null"},
        {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", PROTOCOL_INVALID_REQUEST, "null"},
        {"{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"ping\"}", PROTOCOL_INVALID_REQUEST, "null"},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\",\"params\":[1]}",
         PROTOCOL_INVALID_PARAMS, "\"x\""},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\",\"params\":null}",
         PROTOCOL_INVALID_PARAMS, "\"x\""},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\",\"params\":\"u1\"}",
         PROTOCOL_INVALID_PARAMS, "\"x\""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct request request;
        struct error error;

        cr_expect(eq(int, read_text(cases[i].text, &request, &error), cases[i].code), "row %zu", i);
        cr_expect(eq(str, STR(request.id), STR(cases[i].id)), "row %zu", i);
        cr_expect(ne(chr, error.message[0], '\0'), "row %zu", i);
        request_clear(&request);
    }
}

Test(protocol, a_method_of_64_bytes_is_the_longest)
{
    static const struct {
        int length;
        int code;
    } cases[] = {{64, 0}, {65, PROTOCOL_INVALID_REQUEST}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[256];
        struct request request;
        struct error error;

        (void) snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%0*d\"}",
                        cases[i].length, 7);
        cr_expect(eq(int, read_text(text, &request, &error), cases[i].code), "row %zu", i);
        request_clear(&request);
    }
}

Test(protocol, nesting_is_bounded)
{
    static const struct {
        unsigned brackets;
        int code;
    } cases[] = {
        {PROTOCOL_DEPTH_MAX - 2, 0},
        {PROTOCOL_DEPTH_MAX, PROTOCOL_PARSE_ERROR},
        {100000, PROTOCOL_PARSE_ERROR},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text text = {0};
        struct request request;
        struct error error;

        text_append_string(&text,
                           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":");
        for (unsigned n = 0; n < cases[i].brackets; n++)
            text_append_char(&text, '[');
        for (unsigned n = 0; n < cases[i].brackets; n++)
            text_append_char(&text, ']');
        text_append_string(&text, "}}");
        cr_expect(eq(int, read_text(text_string(&text), &request, &error), cases[i].code),
                  "row %zu: %s", i, error.message);
        request_clear(&request);
    }
}

Test(protocol, a_hundred_thousand_opening_brackets_are_refused)
{
    AUTO_TEXT struct text text = {0};
    struct request request;
    struct error error;

    for (unsigned n = 0; n < 100000; n++)
        text_append_char(&text, '[');
    cr_expect(eq(int, read_text(text_string(&text), &request, &error), PROTOCOL_PARSE_ERROR));
    request_clear(&request);
}

Test(protocol, statuses_have_the_documented_numbers)
{
    static const struct {
        enum status status;
        int code;
        bool retryable;
    } cases[] = {
        {STATUS_INVALID, -32602, false},     {STATUS_NOT_FOUND, -32001, false},
        {STATUS_CONFLICT, -32002, true},     {STATUS_CORRUPT, -32003, false},
        {STATUS_TIMEOUT, -32004, true},      {STATUS_DENIED, -32005, false},
        {STATUS_UNSUPPORTED, -32006, false}, {STATUS_UNAVAILABLE, -32007, true},
        {STATUS_STORAGE_FULL, -32008, true}, {STATUS_BUSY, -32009, true},
        {STATUS_TOO_LARGE, -32010, false},   {STATUS_IO, -32007, true},
        {STATUS_STALE, -32007, true},        {STATUS_NO_MEMORY, -32603, false},
        {STATUS_INTERNAL, -32603, false},    {STATUS_WOULD_BLOCK, -32603, false},
        {STATUS_OK, -32603, false},          {(enum status) 99, -32603, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cr_expect(eq(int, protocol_code_of(cases[i].status), cases[i].code), "row %zu", i);
        cr_expect(eq(int, protocol_is_retryable(cases[i].status), cases[i].retryable), "row %zu",
                  i);
    }
}

Test(protocol, an_error_reply_carries_kind_scope_path_and_retryable)
{
    AUTO_TEXT struct text text = {0};
    struct error error;

    (void) error_set(&error, STATUS_NOT_FOUND, "users/u1/memory.json", "no fact f1");
    protocol_write_error(&text, "3", 0, &error, "u1", NULL);
    cr_expect(
        eq(str, STR(text_string(&text)),
           STR("{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32001,"
               "\"message\":\"no fact f1\",\"data\":{\"kind\":\"not_found\",\"user_id\":\"u1\","
               "\"agent_name\":null,\"path\":\"users/u1/memory.json\",\"retryable\":false}}}")));
}

Test(protocol, an_explicit_code_counts_and_an_empty_message_gets_words)
{
    AUTO_TEXT struct text text = {0};
    struct error error = {0};

    protocol_write_error(&text, NULL, PROTOCOL_NO_METHOD, &error, NULL, "coder");
    cr_expect(
        eq(str, STR(text_string(&text)),
           STR("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32601,"
               "\"message\":\"no such method\",\"data\":{\"kind\":\"no_method\",\"user_id\":null,"
               "\"agent_name\":\"coder\",\"path\":null,\"retryable\":false}}}")));
}

Test(protocol, messages_with_stray_bytes_stay_one_line_of_utf8)
{
    AUTO_TEXT struct text text = {0};
    AUTO_JSON json_t *reply = NULL;
    struct error error;

    (void) error_set(&error, STATUS_IO, "users/\xff/x", "a\nb\x01\xc3 \"q\" \xc3\xa9");
    protocol_write_error(&text, "1", 0, &error, "u\n", "\xff");
    cr_assert(text_is_utf8(text.bytes, text.size));
    reply = json_loadb(text.bytes, text.size, 0, NULL);
    cr_assert(ne(ptr, reply, NULL), "%s", text_string(&text));
    const json_t *told = json_object_get(reply, "error");
    cr_expect(eq(str, STR(json_string_value(json_object_get(told, "message"))),
                 STR("a b \xef\xbf\xbd \"q\" \xc3\xa9")));
    const json_t *data = json_object_get(told, "data");
    cr_expect(eq(str, STR(json_string_value(json_object_get(data, "path"))),
                 STR("users/\xef\xbf\xbd/x")));
    cr_expect(eq(str, STR(json_string_value(json_object_get(data, "user_id"))), STR("u\n")),
              "a name is never another's");
    cr_expect(eq(int, json_is_null(json_object_get(data, "agent_name")), true));
}

Test(protocol, a_result_is_spliced_and_an_empty_one_is_null)
{
    AUTO_TEXT struct text text = {0};

    protocol_write_result(&text, "\"a\"", "[1,2] trailing", 5);
    protocol_write_result(&text, "1", NULL, 0);
    cr_expect(eq(str, STR(text_string(&text)),
                 STR("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":[1,2]}"
                     "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}")));
}

Test(protocol, percent_encoding_keeps_unreserved_characters_only)
{
    static const struct {
        const char *plain;
        const char *encoded;
    } cases[] = {
        {"", ""},         {"AZaz09-_.~", "AZaz09-_.~"},   {"a/b", "a%2Fb"},
        {"50%", "50%25"}, {"\xc3\xa9 +", "%C3%A9%20%2B"}, {"\x01\x7f\xff", "%01%7F%FF"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_TEXT struct text text = {0};

        protocol_write_percent(&text, cases[i].plain);
        cr_expect(eq(str, STR(text_string(&text)), STR(cases[i].encoded)), "row %zu", i);
    }
}
