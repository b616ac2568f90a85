/* links: hub */
/* Any text as the hub's list of files, and what stands behind a NUL in it as an index: refused with
 * a message, or every name stays in its folder, every digest is one, and the choice is of files
 * that are in the list. */
#include "base/asserts.h"
#include "hub/choose_priv.h"
#include "hub/hub.h"
#include "hub/safe_name_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_choice(const choice *c, const listing *l)
{
    for (int i = 0; i < c->n_small; i++) ASSERT(c->small[i] >= 0 && c->small[i] < l->n);
    for (int i = 0; i < c->n_weights; i++) ASSERT(c->weights[i] >= 0 && c->weights[i] < l->n);
    ASSERT(c->n_weights > 0 || c->index >= 0);
}

static void check_list(arena *a, str text, str index)
{
    static const char *const variants[] = {"", "Q4_K_M", "a"};
    listing l;
    err e = {0};
    if (listing_parse(&l, a, text, "fuzz", &e) != ERR_OK) {
        ASSERT(e.msg[0]);
        return;
    }
    ASSERT(safe_hex(str_from(l.commit), COMMIT_DIGITS));
    for (int i = 0; i < l.n; i++) {
        const listing_file *f = &l.files[i];
        ASSERT(safe_path(str_from(f->path)) && f->n_bytes >= 0);
        ASSERT(safe_hex(str_from(f->digest), f->is_sha256 ? 64 : 40));
        ASSERT(f->path[0] != '/' && !strstr(f->path, "/../") && strncmp(f->path, "../", 3) != 0);
    }
    for (int v = 0; v < 3; v++) {
        choice c;
        status s = choose_files(&c, a, &l, variants[v], "fuzz", &e);
        ASSERT(s == ERR_OK || e.msg[0]);
        if (s != ERR_OK) continue;
        check_choice(&c, &l);
        if (choose_shards(&c, a, &l, index, "fuzz", &e) == ERR_OK) check_choice(&c, &l);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    arena a;
    hub_name name;
    str all = {(const char *)data, n};
    const char *nul = n ? memchr(data, 0, n) : NULL;
    size_t cut = nul ? (size_t)(nul - all.ptr) : n;
    arena_init(&a, 0);
    check_list(&a, str_slice(all, 0, cut), nul ? str_skip(all, cut + 1) : STR(""));
    if (hub_name_parse(all, &name)) ASSERT(!strstr(name.owner, "..") && !strchr(name.repo, '/'));
    arena_fini(&a);
    return 0;
}
