#include <stdio.h>

#include "base/file.h"
#include "cli/command_priv.h"

enum { IDS_FILE_MAX = 64 << 20 };

int command_parse(const option_row *rows, const char *usage, int argc, char **argv)
{
    bool wants_help = false;
    err e = {0};
    status s = option_parse(rows, argc, argv, NULL, 0, NULL, &wants_help, &e);
    if (wants_help) {
        option_print_help(rows, usage);
        return 0;
    }
    if (s == ERR_OK) return -1;
    command_fail(argv[0], &e);
    return 2;
}

int command_fail(const char *command, const err *e)
{
    char text[512];
    err_format(e, text, sizeof text);
    fprintf(stderr, "riptide %s: %s\n", command, text);
    return 1;
}

int command_print(const char *command, const buf *b)
{
    if (b->failed)
        return command_fail(
            command,
            &(err){.code = ERR_NOMEM, .where = "output", .pos = -1, .msg = "out of memory"});
    if (fwrite(buf_str(b).ptr, 1, b->len, stdout) != b->len || fflush(stdout) != 0)
        return command_fail(
            command,
            &(err){.code = ERR_IO, .where = "standard output", .pos = -1, .msg = "write failed"});
    return 0;
}

int command_output(const char *command, command_work *work, void *ctx)
{
    arena a;
    buf out;
    err e = {0};
    arena_init(&a, 0);
    buf_init(&out);
    status s = work(ctx, &a, &out, &e);
    int code = s == ERR_OK ? command_print(command, &out) : command_fail(command, &e);
    buf_fini(&out);
    arena_fini(&a);
    return code;
}

static bool is_separator(char c)
{
    return c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '[' || c == ']';
}

status command_parse_ids(arena *a, str text, const char *name, int32_t **out, int *n, err *e)
{
    /* Every id takes at least one byte and a separator. */
    int32_t *ids = arena_new_array(a, text.len / 2 + 1, sizeof *ids);
    if (!ids) return err_set(e, ERR_NOMEM, name, -1, "%zu bytes of ids", text.len);
    int count = 0;
    for (size_t at = 0; at < text.len;) {
        if (is_separator(text.ptr[at])) {
            at++;
            continue;
        }
        size_t end = at;
        while (end < text.len && !is_separator(text.ptr[end])) end++;
        int64_t id;
        str word = str_slice(text, at, end);
        if (!str_to_int64(word, &id) || id < 0 || id > INT32_MAX)
            return err_set(e, ERR_FORMAT, name, (long)at, "\"%.*s\" is not a token id",
                           (int)(word.len > 20 ? 20 : word.len), word.ptr);
        ids[count++] = (int32_t)id;
        at = end;
    }
    if (count == 0) return err_set(e, ERR_FORMAT, name, -1, "no token ids");
    *out = ids;
    *n = count;
    return ERR_OK;
}

status command_read_ids(arena *a, const char *ids, const char *ids_file, int32_t **out, int *n,
                        err *e)
{
    if (ids) return command_parse_ids(a, str_from(ids), "--ids", out, n, e);
    str text;
    TRY(file_read(a, ids_file, IDS_FILE_MAX, &text, e));
    return command_parse_ids(a, text, ids_file, out, n, e);
}
