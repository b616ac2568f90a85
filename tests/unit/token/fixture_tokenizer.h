/* Small tokenizer.json texts: the 256 bytes as tokens 0 to 255, and what a test adds. */
#ifndef RIPTIDE_TESTS_FIXTURE_TOKENIZER_H
#define RIPTIDE_TESTS_FIXTURE_TOKENIZER_H

#include "base/buf.h"
#include "base/json.h"
#include "base/utf8.h"
#include "support/test.h"
#include "token/tokenizer.h"

/* Each is JSON; NULL takes the default. */
typedef struct {
    const char *pieces;       /* more members of the vocabulary, each with a comma before it */
    const char *merges;       /* default [] */
    const char *model;        /* more members of the model, each with a comma before it */
    const char *added;        /* default [] */
    const char *normalizer;   /* default {"type":"NFC"} */
    const char *pretokenizer; /* default ByteLevel without a pattern: a text is one word */
    const char *decoder;      /* default ByteLevel */
    int n_bytes;              /* how many byte tokens there are, 0 for all */
} fixture_parts;

#define FIXTURE_BYTE_LEVEL \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}"
#define FIXTURE_GPT2 \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"
/* An added token; flags: "w" single_word, "l" lstrip, "r" rstrip, "n" normalized, "s" special. */
static inline void fixture_put_added(buf *out, int id, const char *content, const char *flags)
{
    static const char letters[] = "wlrns";
    static const char *const names[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};
    buf_printf(out, "%s{\"id\":%d,\"content\":\"%s\"", out->len > 1 ? "," : "", id, content);
    for (int i = 0; i < 5; i++)
        buf_printf(out, ",\"%s\":%s", names[i], strchr(flags, letters[i]) ? "true" : "false");
    buf_put_byte(out, '}');
}

/* The character that stands for a byte in the byte alphabet, written out once more here. */
static inline uint32_t fixture_letter(int byte)
{
    uint32_t next = 0x100;
    for (int b = 0; b < 256; b++) {
        int is_itself = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte) return is_itself ? (uint32_t)b : next;
        if (!is_itself) next++;
    }
    return 0;
}

/* The text in the byte alphabet. */
static inline void fixture_spell(buf *out, str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        char letter[4];
        int n = utf8_encode(fixture_letter((unsigned char)bytes.ptr[i]), letter);
        buf_put(out, letter, (size_t)n);
    }
}

static inline void fixture_write(buf *out, fixture_parts p)
{
    buf_put_c(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":");
    buf_put_c(out, p.added ? p.added : "[]");
    buf_printf(out, ",\"normalizer\":%s", p.normalizer ? p.normalizer : "{\"type\":\"NFC\"}");
    buf_printf(out, ",\"pre_tokenizer\":%s", p.pretokenizer ? p.pretokenizer : FIXTURE_BYTE_LEVEL);
    buf_printf(out, ",\"decoder\":%s", p.decoder ? p.decoder : FIXTURE_BYTE_LEVEL);
    buf_put_c(out, ",\"post_processor\":null,\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int i = 0; i < (p.n_bytes ? p.n_bytes : 256); i++) {
        char byte = (char)i;
        buf spelled;
        buf_init(&spelled);
        fixture_spell(&spelled, (str){&byte, 1});
        if (i > 0) buf_put_byte(out, ',');
        json_put_string(out, buf_str(&spelled));
        buf_printf(out, ":%d", i);
        buf_fini(&spelled);
    }
    buf_printf(out, "%s},\"merges\":%s%s}}", p.pieces ? p.pieces : "", p.merges ? p.merges : "[]",
               p.model ? p.model : "");
}

static inline status fixture_open(tokenizer **t, fixture_parts p, err *e)
{
    buf text;
    buf_init(&text);
    fixture_write(&text, p);
    assert_false(text.failed);
    status s = tokenizer_open(t, buf_str(&text), "fixture", e);
    buf_fini(&text);
    return s;
}

static inline tokenizer *fixture_must_open(fixture_parts p)
{
    tokenizer *t = NULL;
    err e = {0};
    CHECK_OK(fixture_open(&t, p, &e), &e);
    return t;
}

/* "1,2,3" of the text's ids. */
static inline const char *fixture_ids(const tokenizer *t, const tokenizer_segment *segments, int n)
{
    static char out[4096];
    token_ids ids = {0};
    err e = {0};
    int at = 0;
    out[0] = '\0';
    CHECK_OK(tokenizer_encode_segments(t, segments, n, 0, &ids, &e), &e);
    for (int i = 0; i < ids.n; i++)
        at += snprintf(out + at, sizeof out - (size_t)at, "%s%d", i ? "," : "", (int)ids.ptr[i]);
    token_ids_fini(&ids);
    return out;
}

static inline const char *fixture_encode(const tokenizer *t, const char *text)
{
    tokenizer_segment s = {.text = str_from(text), .specials = true};
    return fixture_ids(t, &s, 1);
}

/* Every prefix of the calls to mem fails once; each failure must be NOMEM and leave nothing. */
#define FIXTURE_STAIRCASE(expr, e, close)                          \
    do {                                                           \
        int64_t stair_live_ = mem_count().n_live;                  \
        status stair_ = ERR_NOMEM;                                 \
        for (int64_t n_ = 1; stair_ != ERR_OK; n_++) {             \
            mem_fail_at(n_);                                       \
            stair_ = (expr);                                       \
            mem_fail_at(0);                                        \
            if (stair_ != ERR_OK) {                                \
                CHECK_STATUS(stair_, ERR_NOMEM);                   \
                assert_int_equal(mem_count().n_live, stair_live_); \
            }                                                      \
            assert_true(n_ < 5000);                                \
        }                                                          \
        close;                                                     \
        assert_int_equal(mem_count().n_live, stair_live_);         \
        (void)(e);                                                 \
    } while (0)

#endif
