/* agent/http_address.h: what is taken, what is not, and who can reach it. */
#include "agent/http_address.h"

#include <criterion/criterion.h>

TestSuite(http_address, .timeout = 30);

Test(http_address, a_port_alone_is_one_of_this_host)
{
    static const struct {
        const char *text, *told;
        bool loopback;
    } cases[] = {
        {"9464", "127.0.0.1:9464", true},
        {"0", "127.0.0.1:0", true},
        {"65535", "127.0.0.1:65535", true},
        {"127.0.0.1:9464", "127.0.0.1:9464", true},
        {"127.9.8.7:1", "127.9.8.7:1", true},
        {"[::1]:9464", "[::1]:9464", true},
        {"0.0.0.0:9464", "0.0.0.0:9464", false},
        {"[::]:9464", "[::]:9464", false},
        {"10.1.2.3:9464", "10.1.2.3:9464", false},
        {"128.0.0.1:9464", "128.0.0.1:9464", false},
        {"[2001:db8::5]:80", "[2001:db8::5]:80", false},
        {"[::ffff:10.1.2.3]:80", "[::ffff:10.1.2.3]:80", false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct http_address address;
        char text[HTTP_ADDRESS_TEXT_SIZE];
        cr_assert(http_address_parse(cases[i].text, &address), "%s", cases[i].text);
        http_address_format(&address, text);
        cr_expect_str_eq(text, cases[i].told);
        cr_expect_eq(http_address_is_loopback(&address), cases[i].loopback, "%s", text);
    }
}

Test(http_address, everything_else_is_refused)
{
    static const char *const wrong[] = {
        "",
        ":",
        ":9464",
        "127.0.0.1",
        "127.0.0.1:",
        "65536",
        "-1",
        "+1",
        "09464",
        "9464 ",
        " 9464",
        "9464/",
        "http://1.2.3.4",
        "localhost:9464",
        "::1:9464",
        "[::1]",
        "[::1]9464",
        "[::1:9464",
        "::1]:9464",
        "[127.0.0.1]:9464",
        "[]:9464",
        "[:9464",
        "]:9464",
        "1.2.3:9464",
        "1.2.3.4.5:9464",
        "*:9464",
        "[fe80::1%lo]:9464",
        "1.2.3.4:0x50",
        "999999999999",
        "[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc]:1",
    };

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        struct http_address address;
        cr_expect_not(http_address_parse(wrong[i], &address), "\"%s\"", wrong[i]);
    }
}
