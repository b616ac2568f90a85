/* The masks of a cycle's verify rows, made on a thread of their own while the target runs.
 *
 * A row's mask depends on the proposals before it, so it can only be begun behind the draft; only
 * sampling needs it. Lanes are served one after the other. On a busy machine the helper may not
 * come to it in time; then whoever waits does it. */
#include <string.h>

#include "base/asserts.h"
#include "base/mem.h"
#include "decode/cycle_priv.h"

void cycle_masks_plan(cycle *c)
{
    cycle_masks *m = &c->masks;
    m->n_words = (c->files.target.V + 31) / 32;
    m->max_rows = c->opt.n_slots * (c->max_draft + 1);
    m->mem = dev_arena_take(&c->mem, (int64_t)m->max_rows * m->n_words * 4);
}

/* Rows of the lanes in their order, as cycle_step has them. */
static void fill_all(const cycle *c, const cycle_lane *lanes, int L)
{
    const cycle_masks *m = &c->masks;
    uint32_t *row = m->host;
    for (int l = 0, d = 0; l < L; l++) {
        int n = lanes[l].n_draft;
        const int32_t *proposals = n > 0 ? cycle_proposals(c, d) : NULL;
        size_t n_words = (size_t)(n + 1) * (size_t)m->n_words;
        if (lanes[l].mask.fill)
            lanes[l].mask.fill(lanes[l].mask.ctx, proposals, n, row);
        else
            memset(row, 0xff, n_words * 4);
        row += n_words;
        d += n > 0;
    }
}

static void *help(void *arg)
{
    cycle *c = arg;
    cycle_masks *m = &c->masks;
    mutex_lock(&m->lock);
    for (;;) {
        while (!m->is_due && !m->is_stopping) cond_wait(&m->wake, &m->lock);
        if (m->is_stopping) break;
        m->is_due = false;
        m->is_begun = true;
        mutex_unlock(&m->lock);
        fill_all(c, m->lanes, m->n_lanes);
        mutex_lock(&m->lock);
        m->is_begun = false;
        cond_broadcast(&m->wake);
    }
    mutex_unlock(&m->lock);
    return NULL;
}

status cycle_masks_open(cycle *c, err *e)
{
    cycle_masks *m = &c->masks;
    size_t n = (size_t)m->max_rows * (size_t)m->n_words;
    m->host = mem_new_array(n, sizeof *m->host);
    if (!m->host) return err_set(e, ERR_NOMEM, "cycle", -1, "masks of %d rows", m->max_rows);
    mutex_init(&m->lock);
    cond_init(&m->wake);
    m->has_lock = true;
    return thread_start(&m->helper, "masks", help, c, e);
}

void cycle_masks_close(cycle *c)
{
    cycle_masks *m = &c->masks;
    if (m->has_lock) {
        mutex_lock(&m->lock);
        m->is_stopping = true;
        cond_broadcast(&m->wake);
        mutex_unlock(&m->lock);
        thread_join(&m->helper);
        cond_fini(&m->wake);
        mutex_fini(&m->lock);
    }
    mem_free(m->host);
    *m = (cycle_masks){0};
}

void cycle_masks_begin(cycle *c, const cycle_lane *lanes, int L)
{
    cycle_masks *m = &c->masks;
    mutex_lock(&m->lock);
    DASSERT(!m->is_due && !m->is_begun);
    m->lanes = lanes;
    m->n_lanes = L;
    m->is_due = true;
    cond_broadcast(&m->wake);
    mutex_unlock(&m->lock);
}

void cycle_masks_wait(cycle *c)
{
    cycle_masks *m = &c->masks;
    mutex_lock(&m->lock);
    bool is_mine = m->is_due;
    m->is_due = false;
    while (m->is_begun) cond_wait(&m->wake, &m->lock);
    mutex_unlock(&m->lock);
    if (is_mine) fill_all(c, m->lanes, m->n_lanes);
}
