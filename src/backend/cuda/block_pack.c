#include "backend/cuda/block_pack_priv.h"

#include "tensor/block.h"

block_format block_format_of(const tensor *t)
{
    block_affine a = block_affine_of(t->type);
    return (block_format){a.bits, a.group, a.zero, t->shape[t->n_dims - 1] / a.group};
}

bool block_is_packable(const tensor *t)
{
    const tensor_heads *v = &t->heads;
    return v->n == 0 || !v->in_columns || v->size % block_affine_of(t->type).group == 0;
}

int64_t block_pack_bytes(const tensor *t, bool is_table, int64_t *side)
{
    block_format f = block_format_of(t);
    int64_t N = t->shape[t->n_dims - 2], K = t->shape[t->n_dims - 1];
    int64_t X = t->n_dims == 3 ? t->shape[0] : 1;
    *side = is_table ? N * f.n_groups * 4 : 0;
    if (is_table) return N * K * f.bits / 8;
    return X * ((N + BLOCK_PANEL_N - 1) / BLOCK_PANEL_N) * block_panel_bytes(&f);
}

/* The file's row of our row: its codes and groups, still in the file's order of columns. */
static void read_row(const tensor *t, int64_t row, uint8_t *codes, float *groups)
{
    int64_t K = t->shape[t->n_dims - 1];
    const uint8_t *data = t->data;
    block_affine_row(t->type, data + tensor_file_row(t, row) * block_row_bytes(t->type, K), K,
                     codes, groups, groups + block_format_of(t).n_groups);
}

/* Codes of a group, the first lowest, to every BLOCK_PANEL_N-th word. */
static void put_words(const uint8_t *codes, int group, int bits, uint32_t *to)
{
    int in_word = 32 / bits;
    for (int k = 0; k < group; k += in_word, to += BLOCK_PANEL_N) {
        uint32_t word = 0;
        for (int j = 0; j < in_word; j++) word |= (uint32_t)codes[k + j] << (j * bits);
        *to = word;
    }
}

void block_pack_panel(const tensor *t, int64_t panel, uint8_t *codes, float *groups, uint8_t *out)
{
    block_format f = block_format_of(t);
    int64_t N = t->shape[t->n_dims - 2], each = block_group_bytes(&f);
    int64_t n_there = N - panel * BLOCK_PANEL_N;
    if (n_there > BLOCK_PANEL_N) n_there = BLOCK_PANEL_N;
    if (n_there < BLOCK_PANEL_N) memset(out, 0, (size_t)block_panel_bytes(&f));
    for (int64_t n = 0; n < n_there; n++) {
        read_row(t, panel * BLOCK_PANEL_N + n, codes, groups);
        for (int64_t g = 0; g < f.n_groups; g++) {
            uint8_t *to = out + tensor_our_column(t, g * f.group) / f.group * each;
            float bias = f.zero ? 0 : groups[f.n_groups + g];
            memcpy(to + 4 * n, &groups[g], 4);
            memcpy(to + 4 * (BLOCK_PANEL_N + n), &bias, 4);
            put_words(codes + g * f.group, f.group, f.bits,
                      (uint32_t *)(void *)(to + (int64_t)BLOCK_PANEL_N * 8) + n);
        }
    }
}

void block_pack_row(const tensor *t, int64_t row, uint8_t *codes, float *groups, uint8_t *out_codes,
                    float *out_scales, float *out_biases)
{
    block_format f = block_format_of(t);
    int64_t bytes = (int64_t)f.group * f.bits / 8;
    read_row(t, row, codes, groups);
    memset(out_codes, 0, (size_t)(f.n_groups * bytes));
    for (int64_t g = 0; g < f.n_groups; g++) {
        int64_t to = tensor_our_column(t, g * f.group) / f.group;
        out_scales[to] = groups[g];
        out_biases[to] = groups[f.n_groups + g];
        for (int k = 0; k < f.group; k++) {
            int bit = k * f.bits;
            uint8_t *byte = &out_codes[to * bytes + bit / 8];
            *byte = (uint8_t)(*byte | codes[g * f.group + k] << bit % 8);
        }
    }
}
