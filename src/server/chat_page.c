/* GET /: the chat page. It is one file, part of the program. The browser is told to run and fetch
 * nothing but the page's own: its style and script carry a number that is new for every answer. */
#include <stdio.h>
#include <unistd.h>

#include "server/endpoint_priv.h"

/* The assembler reads the file, from the root of the checkout, where make runs. */
__asm__(".section .rodata\n"
        ".global riptide_chat_page\n"
        ".global riptide_chat_page_end\n"
        "riptide_chat_page:\n"
        ".incbin \"src/server/chat.html\"\n"
        "riptide_chat_page_end:\n"
        ".byte 0\n"
        ".previous\n");
extern const char riptide_chat_page[], riptide_chat_page_end[];

enum { NONCE_BYTES = 16 };

/* The page, with the nonce where it says so. */
static void put_page(buf *out, const char *nonce)
{
    static const char mark[] = "NONCE";
    str rest = {riptide_chat_page, (size_t)(riptide_chat_page_end - riptide_chat_page)};
    for (int64_t at; (at = str_find(rest, str_from(mark), 0)) >= 0;) {
        buf_put_str(out, str_slice(rest, 0, (size_t)at));
        buf_put_c(out, nonce);
        rest = str_skip(rest, (size_t)at + strlen(mark));
    }
    buf_put_str(out, rest);
}

static void put_fields(buf *out, const char *nonce)
{
    buf_printf(out,
               "Content-Security-Policy: default-src 'none'; script-src 'nonce-%s'; "
               "style-src 'nonce-%s'; connect-src 'self'; img-src data:; base-uri 'none'; "
               "form-action 'none'; frame-ancestors 'none'\r\n"
               "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
               "Cache-Control: no-store\r\n",
               nonce, nonce);
}

void endpoint_root(server *s, conn *c)
{
    unsigned char random[NONCE_BYTES] = {0};
    char nonce[2 * NONCE_BYTES + 1] = "";
    buf fields, page;
    (void)s;
    buf_init(&fields);
    buf_init(&page);
    bool is_random = getentropy(random, sizeof random) == 0;
    for (int i = 0; i < NONCE_BYTES; i++) snprintf(nonce + 2 * i, 3, "%02x", random[i]);
    put_fields(&fields, nonce);
    put_page(&page, nonce);
    if (!is_random || fields.failed || page.failed) {
        api_error a;
        api_error_from(&a, &(err){.code = ERR_NOMEM});
        conn_reply_error(c, &a, NULL);
    } else {
        conn_reply(c, 200, "text/html; charset=utf-8", buf_str(&page), fields.ptr);
    }
    buf_fini(&page);
    buf_fini(&fields);
}
