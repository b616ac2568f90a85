/* cuda_graph: captured steps, kept by key, launched again as one. */
#include "backend/cuda/cuda_check.cuh"
#include "backend/cuda/waiting.cuh"

static int graph_find(const cuda_backend *cb, uint64_t key)
{
    for (int i = 0; i < cb->n_graphs; i++) {
        if (cb->graphs[i].key == key) return i;
    }
    return -1;
}

bool cuda_graph_replay(backend *b, uint64_t key)
{
    cuda_backend *cb = cuda_of(b);
    int i = graph_find(cb, key);
    if (i < 0 || cb->is_capturing || cb->broken != ERR_OK) return false;
    if (cuda_settle(cb) != ERR_OK) return false;
    cb->graphs[i].used = ++cb->tick;
    return cuda_status(cb, cudaGraphLaunch(cb->graphs[i].exec, cb->stream), "cudaGraphLaunch",
                       __FILE__, __LINE__) == ERR_OK;
}

status cuda_graph_begin(backend *b, uint64_t key)
{
    cuda_backend *cb = cuda_of(b);
    ASSERT(!cb->is_capturing);
    TRY(cuda_settle(cb));
    /* Relaxed: a kernel's first use may load its code, which the stricter modes forbid. */
    CUDA_TRY(cb, cudaStreamBeginCapture(cb->stream, cudaStreamCaptureModeRelaxed));
    cb->is_capturing = true;
    cb->capture_key = key;
    return ERR_OK;
}

/* Nothing that was captured runs; the stream is as before. */
void cuda_graph_drop(backend *b)
{
    cuda_backend *cb = cuda_of(b);
    cudaGraph_t graph = nullptr;
    if (!cb->is_capturing) return;
    cb->is_capturing = false;
    cb->waiting = cuda_waiting{};
    cudaStreamEndCapture(cb->stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError(); /* of a capture that was invalid already: not the device's */
}

/* A free place in the cache, the least recently used graph's when all are taken. */
static cuda_graph *graph_place(cuda_backend *cb)
{
    if (cb->n_graphs < CUDA_GRAPHS_MAX) return &cb->graphs[cb->n_graphs++];
    cuda_graph *g = &cb->graphs[0];
    for (int i = 1; i < CUDA_GRAPHS_MAX; i++) {
        if (cb->graphs[i].used < g->used) g = &cb->graphs[i];
    }
    cudaGraphExecDestroy(g->exec); /* waits for no one: a running launch keeps what it needs */
    return g;
}

/* Nothing ran while it was captured: the new graph is launched here. */
status cuda_graph_end(backend *b)
{
    cuda_backend *cb = cuda_of(b);
    ASSERT(cb->is_capturing);
    status settled = cuda_settle(cb); /* what waits belongs to the graph */
    cb->is_capturing = false;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    size_t n_nodes = 0;
    cudaError_t r = cudaStreamEndCapture(cb->stream, &graph);
    if (settled != ERR_OK) {
        if (graph) cudaGraphDestroy(graph);
        return settled;
    }
    if (r == cudaSuccess) r = cudaGraphGetNodes(graph, nullptr, &n_nodes);
    if (r == cudaSuccess) r = cudaGraphInstantiate(&exec, graph, 0);
    if (r == cudaSuccess) r = cudaGraphLaunch(exec, cb->stream);
    if (graph) cudaGraphDestroy(graph);
    if (r != cudaSuccess) {
        if (exec) cudaGraphExecDestroy(exec);
        return cuda_status(cb, r, "capture", __FILE__, __LINE__);
    }
    cuda_graph *g = graph_place(cb);
    g->key = cb->capture_key;
    g->used = ++cb->tick;
    g->exec = exec;
    b->n_captures++;
    b->n_nodes = static_cast<int64_t>(n_nodes);
    return ERR_OK;
}

void cuda_graph_clear(cuda_backend *cb)
{
    for (int i = 0; i < cb->n_graphs; i++) cudaGraphExecDestroy(cb->graphs[i].exec);
    cb->n_graphs = 0;
}
