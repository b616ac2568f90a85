// Other official clients, unchanged, against `riptide serve` with the bundled model: the AI SDK in its
// three dialects, LangChain in two, OpenAI's agents in two. Each asks a sum, whole and as a stream,
// has tools called until the answer is there, and leaves in the middle of a stream. All that passes is
// checked against the official types. Started by ../sdk_clients.sh. Prints `ok NAME` or `not ok NAME`.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatAnthropic } from '@langchain/anthropic';
import { ChatOpenAI } from '@langchain/openai';
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool as agentTool } from '@openai/agents';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { AIMessageChunk, createAgent, HumanMessage, tool as chainTool } from 'langchain';
import OpenAI from 'openai';
import { z } from 'zod';
import { startRecorder } from '../../agents/record.mjs';
import { finish, startServer, test } from '../sdk_server.mjs';

// Some clients leave out the temperature when a model reasons: then this model's own counts, and is 0 here.
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'riptide-clients-')), greedy = path.join(folder, 'mini-dense');
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const bundled = path.resolve(import.meta.dirname, '../../../models/mini-dense');
fs.mkdirSync(greedy);
for (const name of fs.readdirSync(bundled)) fs.symlinkSync(path.join(bundled, name), path.join(greedy, name));
const config = path.join(greedy, 'generation_config.json'), own = JSON.parse(fs.readFileSync(config));
fs.rmSync(config);
fs.writeFileSync(config, JSON.stringify({ ...own, temperature: 0 }));

const server = await startServer('--lanes', '2', '--model', greedy, '--draft-model', `${bundled}-dflash2`);
const recorder = await startRecorder(server.url);
const url = recorder.url, base = `${url}/v1`, apiKey = 'x', model = 'mini-dense';
setTracingDisabled(true);

const sum = 'What is 12 + 30?', greeting = 'Hello!', greeted = 'Hello! How can I help?';
const story = 'Tell a story of 9 days about Juno in Lima.';
// What the model asks for, what it is told, and what it then has to say.
const tasks = [
  { name: 'add', description: 'Add two numbers', schema: z.object({ a: z.number().int(), b: z.number().int() }),
    use: ({ a, b }) => String(a + b), question: 'Use the tool to add 417 and 288.', input: { a: 417, b: 288 }, answer: /\b705\b/ },
  { name: 'get_weather', description: 'Current weather of a city', schema: z.object({ city: z.string() }),
    use: () => '{"sky": "rainy", "celsius": 11}', question: 'What is the weather in Turin?', input: { city: 'Turin' },
    answer: /rainy in Turin with 11 degrees/ },
];

const generations = async () => (await (await fetch(`${server.url}/status`)).json()).http.generations;
async function untilIdle() {
  for (let i = 0; await generations() > 0; i++) {
    assert.ok(i < 400, 'the server still works for a client that has left');
    await new Promise((r) => setTimeout(r, 25));
  }
}

// Runs, and then looks at what passed. `leaves`: the exchange that the client does not wait for.
const client = (name, work, { leaves = false } = {}) => test(name, async () => {
  const from = recorder.exchanges.length;
  try {
    await work();
  } finally {
    const seen = recorder.exchanges.slice(from);
    for (const e of seen) {
      console.log(`  ${e.method} ${e.path} ${e.code}, ${e.events ?? 0} events${e.wasLeft ? ', left' : ''}${e.problem ? `: ${e.problem}` : ''}`);
    }
    assert.deepEqual(seen.filter((e) => e.problem || e.code >= 400).map((e) => e.problem ?? e.text), []);
    assert.ok(seen.length > 0 && seen.every((e) => e.code === 200));
    assert.deepEqual(seen.map((e) => Boolean(e.wasLeft)), seen.map((_, i) => leaves && i === seen.length - 1));
  }
});

// A tool that keeps what it was called with.
const logged = (task) => {
  const called = [];
  return { called, use: (input) => {
    called.push(input);
    return task.use(input);
  } };
};

// Reads three pieces of text, leaves, and waits until nobody works for it any more.
async function leave(pieces, control) {
  let n = 0;
  try {
    for await (const piece of pieces) {
      if (piece) n++;
      if (n === 3) {
        assert.equal(await generations(), 1);
        control.abort();
      }
    }
  } catch (error) {
    assert.match(`${error.name} ${error.message}`, /abort/i);
  }
  assert.ok(control.signal.aborted && n >= 3, `${n} pieces`);
  await untilIdle();
}

// --- the AI SDK --------------------------------------------------------------------------------

// Without thinking the small model uses tools, with it it adds.
const anthropic = createAnthropic({ baseURL: base, apiKey });
const dialects = {
  compatible: { model: createOpenAICompatible({ name: 'riptide', baseURL: base, apiKey, includeUsage: true })(model),
    plain: { riptide: { reasoningEffort: 'none' } } },
  anthropic: { model: anthropic(model), thinks: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } } },
  responses: { model: createOpenAI({ baseURL: base, apiKey }).responses(model),
    plain: { openai: { forceReasoning: true, reasoningEffort: 'none' } } },
};
for (const [name, { model: m, thinks, plain }] of Object.entries(dialects)) {
  const common = { model: m, maxOutputTokens: 300, maxRetries: 0, onError: ({ error }) => assert.fail(String(error)) };
  await client(`ai_sdk_${name}_chat`, async () => {
    const one = await generateText({ ...common, prompt: sum, providerOptions: thinks });
    assert.match(one.text, /\b42\b/);
    assert.match(one.reasoningText, /12 \+ 30/);
    assert.equal(one.finishReason, 'stop');
    assert.ok(one.usage.inputTokens > 0 && one.usage.outputTokens > 0);
    const stream = streamText({ ...common, prompt: sum, providerOptions: thinks });
    let text = '', reasoning = '';
    for await (const part of stream.fullStream) {
      if (part.type === 'text-delta') text += part.text;
      if (part.type === 'reasoning-delta') reasoning += part.text;
    }
    assert.equal(text, one.text);
    assert.equal(reasoning, one.reasoningText);
    assert.equal(await stream.finishReason, 'stop');
    assert.equal((await stream.usage).outputTokens, one.usage.outputTokens);
  });
  await client(`ai_sdk_${name}_tools`, async () => {
    for (const task of tasks) {
      for (const streams of [false, true]) {
        const { called, use } = logged(task);
        const asked = { ...common, prompt: task.question, providerOptions: plain, stopWhen: stepCountIs(3),
          tools: { [task.name]: tool({ description: task.description, inputSchema: task.schema, execute: use }) } };
        const round = streams ? streamText(asked) : await generateText(asked);
        const said = await round.text, steps = await round.steps;
        assert.deepEqual(called, [task.input]);
        assert.deepEqual(steps.map((s) => s.finishReason), ['tool-calls', 'stop']);
        assert.match(said, task.answer);
      }
    }
  });
  await client(`ai_sdk_${name}_leaves`, async () => {
    const control = new AbortController();
    await leave(streamText({ ...common, prompt: story, providerOptions: plain, abortSignal: control.signal, onError: () => {} }).textStream, control);
  }, { leaves: true });
}

// --- LangChain ---------------------------------------------------------------------------------

const chain = { model, apiKey, maxRetries: 0, maxTokens: 300 };
const openaiChain = { ...chain, configuration: { baseURL: base } }, anthropicChain = { ...chain, anthropicApiUrl: url };
const chains = {
  openai: { thinks: new ChatOpenAI(openaiChain), plain: new ChatOpenAI({ ...openaiChain, modelKwargs: { reasoning_effort: 'none' } }) },
  anthropic: { thinks: new ChatAnthropic({ ...anthropicChain, maxTokens: 1500, thinking: { type: 'enabled', budget_tokens: 1024 } }),
    plain: new ChatAnthropic(anthropicChain) },
};
for (const [name, { thinks, plain }] of Object.entries(chains)) {
  await client(`langchain_${name}_chat`, async () => {
    const one = await plain.invoke([new HumanMessage(greeting)]);
    assert.equal(one.text, greeted);
    let whole = new AIMessageChunk('');
    for await (const piece of await plain.stream([new HumanMessage(greeting)])) whole = whole.concat(piece);
    assert.equal(whole.text, greeted);
    for (const key of ['input_tokens', 'output_tokens']) assert.equal(whole.usage_metadata[key], one.usage_metadata[key]);
    assert.match((await thinks.invoke([new HumanMessage(sum)])).text, /\b42\b/);
  });
  await client(`langchain_${name}_tools`, async () => {
    for (const task of tasks) {
      const { called, use } = logged(task);
      const one = chainTool(use, { name: task.name, description: task.description, schema: task.schema });
      const { messages } = await createAgent({ model: plain, tools: [one] }).invoke({ messages: [new HumanMessage(task.question)] });
      assert.deepEqual(called, [task.input]);
      assert.deepEqual(messages.map((m) => m.getType()), ['human', 'ai', 'tool', 'ai']);
      assert.match(messages.at(-1).text, task.answer);
      let whole = new AIMessageChunk(''); // the call again, in pieces
      for await (const piece of await plain.bindTools([one]).stream([new HumanMessage(task.question)])) whole = whole.concat(piece);
      assert.deepEqual(whole.tool_calls.map((c) => [c.name, c.args]), [[task.name, task.input]]);
    }
  });
  await client(`langchain_${name}_leaves`, async () => {
    const control = new AbortController();
    const pieces = await plain.stream([new HumanMessage(story)], { signal: control.signal });
    await leave((async function* () {
      for await (const piece of pieces) yield piece.text;
    })(), control);
  }, { leaves: true });
}

// --- OpenAI's agents ---------------------------------------------------------------------------

const openai = new OpenAI({ baseURL: base, apiKey, maxRetries: 0 });
for (const [name, m] of Object.entries({ chat: new OpenAIChatCompletionsModel(openai, model), responses: new OpenAIResponsesModel(openai, model) })) {
  const settings = { maxTokens: 300 }, plain = { ...settings, reasoning: { effort: 'none' } };
  await client(`openai_agents_${name}_chat`, async () => {
    const agent = new Agent({ name: 'thinker', instructions: '', model: m, modelSettings: settings });
    const one = await run(agent, sum);
    assert.match(one.finalOutput, /\b42\b/);
    const streamed = await run(agent, sum, { stream: true });
    let text = '';
    for await (const event of streamed) {
      if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') text += event.data.delta;
    }
    await streamed.completed;
    assert.equal(streamed.finalOutput, one.finalOutput);
    assert.equal(text, one.finalOutput);
    // Its own history, with the reasoning, and one question more.
    const next = await run(new Agent({ name: 'plain', instructions: '', model: m, modelSettings: plain }),
      [...one.history, { role: 'user', content: greeting }]);
    assert.equal(next.finalOutput, greeted);
  });
  await client(`openai_agents_${name}_tools`, async () => {
    for (const task of tasks) {
      for (const streams of [false, true]) {
        const { called, use } = logged(task);
        const agent = new Agent({ name: 'worker', instructions: '', model: m, modelSettings: plain, tools: [
          agentTool({ name: task.name, description: task.description, parameters: task.schema, strict: true, execute: use })] });
        const done = await run(agent, task.question, { maxTurns: 3, stream: streams });
        if (streams) await done.completed;
        assert.deepEqual(called, [task.input]);
        assert.match(done.finalOutput, task.answer);
      }
    }
  });
  await client(`openai_agents_${name}_leaves`, async () => {
    const control = new AbortController();
    const agent = new Agent({ name: 'teller', instructions: '', model: m, modelSettings: plain });
    const streamed = await run(agent, story, { stream: true, signal: control.signal });
    await leave(streamed.toTextStream(), control);
  }, { leaves: true });
}

await test('clients_stop_with_0', async () => {
  recorder.close();
  assert.equal(await server.stop(), 0);
});
finish();
