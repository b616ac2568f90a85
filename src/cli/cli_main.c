/* riptide: the program. One command a file. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "build_id.h"
#include "cli/command_priv.h"
#include "server/server.h"

typedef struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} command;

static const command commands[] = {
    {"serve", server_command, "answer the OpenAI and Anthropic protocols over HTTP"},
    {"run", command_run, "generate from a prompt, or chat without one"},
    {"logits", command_logits, "write logits and draft outputs of a prompt as safetensors"},
    {"tokenize", command_tokenize, "text to token ids"},
    {"template", command_template, "render messages with the model's chat template"},
    {"info", command_info, "geometry, formats and memory plan of a model"},
    {"pull", command_pull, "fetch a model from the hub into the cache"},
    {"convert", command_convert, "write a model as a GGUF file"},
    {"claude", command_agent, "start Claude Code at a running server"},
    {"codex", command_agent, "start Codex there"},
    {"opencode", command_agent, "start opencode there"},
    {"pi", command_agent, "start pi there"},
    {"qwen", command_agent, "start Qwen Code there"},
    {"bench", bench_command, "measure, and write models to measure with"},
};

static void print_usage(FILE *to)
{
    fprintf(to, "usage: riptide COMMAND [flags]; riptide COMMAND --help\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\nEvery flag --some-flag is also the environment variable RIPTIDE_SOME_FLAG.\n");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0) {
        printf("riptide build %s\n", RIPTIDE_BUILD_ID);
        return 0;
    }
    bool asked = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
                 strcmp(name, "help") == 0;
    if (argc > 1 && !asked) fprintf(stderr, "riptide: there is no command \"%s\"\n", name);
    print_usage(asked ? stdout : stderr);
    return asked ? 0 : 2;
}
