/* Characters as bytes: UTF-8, and the escapes of a JSON string. States are shared between all
 * prefixes whose continuations are one class. */
#include "grammar/leaf_priv.h"

enum { INNER_MOST = 4096, NOT_MADE = 0 };

typedef struct {
    const leaf_alphabet *al;
    arena *a;
    uint16_t *code; /* [cap, 256] */
    int n, cap;
    bool failed;
    uint16_t shared[4][LEAF_CLASSES_MOST]; /* k more bytes, then this class whatever they are */
} coder;

static int new_state(coder *c)
{
    if (c->n == c->cap) {
        int cap = c->cap * 2;
        uint16_t *more = cap > INNER_MOST ? NULL : arena_new_array(c->a, (size_t)cap * 256, 2);
        if (!more) {
            c->failed = true;
            return 0;
        }
        memcpy(more, c->code, (size_t)c->n * 256 * sizeof *more);
        c->code = more;
        c->cap = cap;
    }
    for (int b = 0; b < 256; b++) c->code[c->n * 256 + b] = LEAF_DEAD;
    return c->n++;
}

static int run_of(const leaf_alphabet *al, uint32_t cp)
{
    int from = 0, to = al->n;
    while (to - from > 1) {
        int middle = (from + to) / 2;
        if (al->lo[middle] <= cp)
            from = middle;
        else
            to = middle;
    }
    return from;
}

static uint16_t whole(const coder *c, uint32_t cp)
{
    return (uint16_t)(LEAF_CLASS | c->al->class_of[run_of(c->al, cp)]);
}

/* What stands for k continuation bytes of the code points from `base` on: first..last of them are
 * fit, the others are too long a form, surrogates, or beyond the last code point. */
static uint16_t tail(coder *c, int k, uint32_t base, uint32_t first, uint32_t last)
{
    uint32_t size = 1u << (6 * k), end = base + size - 1;
    if (c->failed || end < first || base > last) return LEAF_DEAD;
    if (k == 0) return whole(c, base);
    int run = run_of(c->al, base);
    int class_of = c->al->class_of[run];
    bool is_one = base >= first && end <= last && (run + 1 == c->al->n || c->al->lo[run + 1] > end);
    if (is_one && c->shared[k][class_of] != NOT_MADE) return c->shared[k][class_of];
    int s = new_state(c);
    for (uint32_t i = 0; i < 64; i++) {
        uint16_t to = tail(c, k - 1, base + (i << (6 * (k - 1))), first, last);
        c->code[s * 256 + 0x80 + (int)i] = to;
    }
    if (is_one) c->shared[k][class_of] = (uint16_t)s;
    return (uint16_t)s;
}

static void add_utf8(coder *c)
{
    for (uint32_t b = 0; b < 0x80; b++) c->code[b] = whole(c, b);
    for (uint32_t b = 0xc2; b <= 0xf4; b++) {
        uint16_t to;
        if (b <= 0xdf)
            to = tail(c, 1, (b & 31) << 6, 0x80, EXPR_LAST_CP);
        else if (b <= 0xef)
            to = tail(c, 2, (b & 15) << 12, 0x800, b == 0xed ? 0xd7ff : EXPR_LAST_CP);
        else
            to = tail(c, 3, (b & 7) << 18, 0x10000, EXPR_LAST_CP);
        c->code[b] = to; /* the table may have moved */
    }
}

static int hex_value(int b)
{
    if (b >= '0' && b <= '9') return b - '0';
    if (b >= 'a' && b <= 'f') return b - 'a' + 10;
    if (b >= 'A' && b <= 'F') return b - 'A' + 10;
    return -1;
}

static void set_hex(coder *c, int s, int lo, int hi, uint16_t to)
{
    for (int b = 0; b < 128; b++)
        if (hex_value(b) >= lo && hex_value(b) <= hi) c->code[s * 256 + b] = to;
}

/* The form \u00xx of the characters that have no other. */
static void add_control_escapes(coder *c, int escape)
{
    int u = new_state(c), zero = new_state(c), second = new_state(c), high[2];
    c->code[escape * 256 + 'u'] = (uint16_t)u;
    c->code[u * 256 + '0'] = (uint16_t)zero;
    c->code[zero * 256 + '0'] = (uint16_t)second;
    for (int h = 0; h < 2; h++) {
        high[h] = new_state(c);
        c->code[second * 256 + '0' + h] = (uint16_t)high[h];
        for (int b = 0; b < 128; b++) {
            int v = hex_value(b) < 0 ? -1 : 16 * h + hex_value(b);
            if (v < 0 || v == '\b' || v == '\t' || v == '\n' || v == '\f' || v == '\r') continue;
            c->code[high[h] * 256 + b] = whole(c, (uint32_t)v);
        }
    }
}

/* \uxxxx for everything; surrogates only in pairs. All characters are one class here. */
static void add_all_escapes(coder *c, int escape)
{
    uint16_t done = whole(c, 'a');
    int u = new_state(c), last3 = new_state(c), last2 = new_state(c), last1 = new_state(c);
    int d = new_state(c), high2 = new_state(c), high1 = new_state(c), slash = new_state(c);
    int low_u = new_state(c), low_d = new_state(c), low_x = new_state(c);
    c->code[escape * 256 + 'u'] = (uint16_t)u;
    c->code[escape * 256 + '/'] = done;
    set_hex(c, u, 0, 15, (uint16_t)last3);
    set_hex(c, u, 13, 13, (uint16_t)d);
    set_hex(c, last3, 0, 15, (uint16_t)last2);
    set_hex(c, d, 0, 7, (uint16_t)last2);
    set_hex(c, d, 8, 11, (uint16_t)high2);
    set_hex(c, last2, 0, 15, (uint16_t)last1);
    set_hex(c, last1, 0, 15, done);
    set_hex(c, high2, 0, 15, (uint16_t)high1);
    set_hex(c, high1, 0, 15, (uint16_t)slash);
    c->code[slash * 256 + '\\'] = (uint16_t)low_u;
    c->code[low_u * 256 + 'u'] = (uint16_t)low_d;
    set_hex(c, low_d, 13, 13, (uint16_t)low_x);
    set_hex(c, low_x, 12, 15, (uint16_t)last2);
}

static void add_string(coder *c, bool is_free)
{
    static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
    int escape = new_state(c);
    for (int b = 0; b < 0x20; b++) c->code[b] = LEAF_DEAD;
    c->code['"'] = LEAF_CLOSE;
    c->code['\\'] = (uint16_t)escape;
    for (int i = 0; names[i]; i++) c->code[escape * 256 + names[i]] = whole(c, (uint32_t)values[i]);
    if (is_free)
        add_all_escapes(c, escape);
    else
        add_control_escapes(c, escape);
}

static void find_reach(leaf *l, leaf_classes *reach)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < l->n_inner; i++) {
            leaf_classes was = reach[i];
            for (int b = 0; b < 256; b++) {
                int to = l->code[i * 256 + b];
                if (to == LEAF_DEAD || to == LEAF_CLOSE) continue;
                if (to & LEAF_CLASS) {
                    int k = to & ~LEAF_CLASS;
                    reach[i].w[k / 64] |= 1ull << (k % 64);
                } else {
                    for (int w = 0; w < LEAF_WORDS; w++) reach[i].w[w] |= reach[to].w[w];
                }
            }
            changed |= memcmp(&was, &reach[i], sizeof was) != 0;
        }
    }
}

bool leaf_coder_build(arena *result, const leaf_alphabet *al, leaf_coding coding, leaf *l)
{
    arena a;
    arena_init(&a, 0);
    coder *c = arena_new(&a, sizeof *c);
    bool ok = false;
    if (!c) goto done;
    c->al = al;
    c->a = &a;
    c->cap = 64;
    c->code = arena_new_array(&a, (size_t)c->cap * 256, sizeof *c->code);
    if (!c->code) goto done;
    new_state(c);
    add_utf8(c);
    if (coding != LEAF_RAW) add_string(c, coding == LEAF_FREE);
    if (c->failed) goto done;
    size_t n = (size_t)c->n;
    uint16_t *code = arena_new_array(result, n * 256, sizeof *code);
    leaf_classes *reach = arena_new_array(result, n, sizeof *reach);
    if (!code || !reach) goto done;
    memcpy(code, c->code, n * 256 * sizeof *code);
    l->code = code;
    l->reach = reach;
    l->n_inner = c->n;
    find_reach(l, reach);
    ok = true;
done:
    arena_fini(&a);
    return ok;
}
