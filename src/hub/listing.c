#include "hub/listing_priv.h"

#include <stdio.h>

#include "base/json.h"
#include "hub/safe_name_priv.h"

static status fail(const char *where, const json *at, const char *what, err *e)
{
    return err_set(e, ERR_FORMAT, where, at ? (long)at->pos : -1, "the hub's list of files: %s",
                   what);
}

static status fail_memory(const char *where, err *e)
{
    return err_set(e, ERR_NOMEM, where, -1, "out of memory for the list of files");
}

/* Size and digest: of a large file under `lfs`, else git's. */
static status read_digest(listing_file *f, arena *a, const json *v, const char *where, err *e)
{
    const json *lfs = json_get(v, "lfs"), *size = json_get(v, "size");
    str text;
    f->is_sha256 = json_is(lfs, JSON_OBJECT);
    if (f->is_sha256 && json_get(lfs, "size")) size = json_get(lfs, "size");
    if (!json_to_int64(size, &f->n_bytes) || f->n_bytes < 0)
        return fail(where, v, "a file has no size", e);
    const json *digest = f->is_sha256 ? json_get(lfs, "sha256") : json_get(v, "blobId");
    if (f->is_sha256 && !digest) digest = json_get(lfs, "oid");
    if (!json_to_str(digest, &text) || !safe_hex(text, f->is_sha256 ? 64 : 40))
        return fail(where, v, "a file has no digest", e);
    f->digest = arena_copy(a, text.ptr, text.len);
    return f->digest ? ERR_OK : fail_memory(where, e);
}

static status read_file(listing_file *f, arena *a, const json *v, const char *where, err *e)
{
    str path;
    if (!json_to_str(json_get(v, "rfilename"), &path))
        return fail(where, v, "a file has no name", e);
    if (!safe_path(path)) return fail(where, v, "a name would leave its folder", e);
    f->path = arena_copy(a, path.ptr, path.len);
    if (!f->path) return fail_memory(where, e);
    return read_digest(f, a, v, where, e);
}

static status read_all(listing *l, arena *a, const json *root, const char *where, err *e)
{
    str commit;
    const json *files = json_get(root, "siblings");
    if (!json_to_str(json_get(root, "sha"), &commit) || !safe_hex(commit, COMMIT_DIGITS))
        return fail(where, root, "it names no commit", e);
    if (!json_is(files, JSON_ARRAY)) return fail(where, root, "it has no `siblings`", e);
    if (files->n > LISTING_FILES_MOST)
        return err_set(e, ERR_LIMIT, where, -1, "the repository has %d files, more than %d",
                       files->n, LISTING_FILES_MOST);
    memcpy(l->commit, commit.ptr, COMMIT_DIGITS);
    l->files = arena_new_array(a, (size_t)files->n + 1, sizeof *l->files);
    if (!l->files) return fail_memory(where, e);
    for (const json *v = files->first; v; v = v->next)
        TRY(read_file(&l->files[l->n++], a, v, where, e));
    return ERR_OK;
}

status listing_parse(listing *out, arena *a, str text, const char *where, err *e)
{
    listing l = {0};
    arena scratch;
    const json *root;
    arena_init(&scratch, 16 * text.len + (1 << 20));
    status s = json_parse(&scratch, text, where, 32, 0, &root, e);
    if (s == ERR_FORMAT) {
        char reason[120];
        snprintf(reason, sizeof reason, "%s", e ? e->msg : "");
        s = err_set(e, ERR_FORMAT, where, -1,
                    "the hub's list of files is no JSON (%s): does something stand between?",
                    reason);
    }
    if (s == ERR_OK) s = read_all(&l, a, root, where, e);
    arena_fini(&scratch);
    if (s == ERR_OK) *out = l;
    return s;
}

int listing_find(const listing *l, const char *path)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->files[i].path, path) == 0) return i;
    return -1;
}
