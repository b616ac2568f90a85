// Other clients, unchanged, against `riptide serve` with the bundled model: the AI SDK in its three
// dialects, LangChain in two, OpenAI's agents in two. Each talks, streams, has a tool called and sends
// what came of it; all that passes is checked against the official types. Started by agents.sh clients.
import assert from 'node:assert/strict';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatAnthropic } from '@langchain/anthropic';
import { ChatOpenAI } from '@langchain/openai';
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool as agentTool } from '@openai/agents';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { HumanMessage, tool as chainTool, ToolMessage } from 'langchain';
import { z } from 'zod';
import OpenAI from '../oracle/node_modules/openai/index.mjs';
import { finish, startServer, test } from '../oracle/sdk_server.mjs';
import { startRecorder } from './record.mjs';

const server = await startServer('--lanes', '2');
const recorder = await startRecorder(server.url);
const url = recorder.url, base = `${url}/v1`, apiKey = 'x', model = 'mini-dense';
setTracingDisabled(true);

const schema = z.object({ a: z.number().int(), b: z.number().int() });
const description = 'Add two numbers', question = 'Use the tool to add 417 and 288.';

// Runs, and then looks at what passed.
const client = (name, work) => test(name, async () => {
  const from = recorder.exchanges.length;
  try {
    await work();
  } finally {
    const seen = recorder.exchanges.slice(from);
    for (const e of seen) console.log(`  ${e.method} ${e.path} ${e.code}, ${e.events ?? 0} events${e.problem ? `: ${e.problem}` : ''}`);
    assert.deepEqual(seen.filter((e) => e.problem || e.code >= 400).map((e) => e.problem ?? e.text), []);
    assert.ok(seen.length > 0);
  }
});

const dialects = {
  compatible: createOpenAICompatible({ name: 'riptide', baseURL: base, apiKey })(model),
  anthropic: createAnthropic({ baseURL: base, apiKey })(model),
  responses: createOpenAI({ baseURL: base, apiKey }).responses(model),
};
for (const [name, m] of Object.entries(dialects)) {
  const common = { model: m, temperature: 0, maxOutputTokens: 200, maxRetries: 0 };
  await client(`ai_sdk_${name}`, async () => {
    const { text, usage, finishReason } = await generateText({ ...common, prompt: 'Hello!' });
    assert.ok(text.length > 0 && usage.inputTokens > 0 && usage.outputTokens > 0);
    assert.equal(finishReason, 'stop');
    const stream = streamText({ ...common, prompt: 'Hello!', onError: ({ error }) => assert.fail(String(error)) });
    let said = '';
    for await (const piece of stream.textStream) said += piece;
    assert.equal(said, text);
    const called = [];
    const add = tool({ description, inputSchema: schema, execute: ({ a, b }) => {
      called.push([a, b]);
      return String(a + b);
    } });
    const round = await generateText({ ...common, prompt: question, tools: { add }, stopWhen: stepCountIs(3) });
    assert.deepEqual(called[0], [417, 288]);
    assert.ok(round.steps.length >= 2); // the result went back and was answered
  });
}

const chains = {
  openai: new ChatOpenAI({ model, temperature: 0, apiKey, maxRetries: 0, maxTokens: 200, configuration: { baseURL: base } }),
  anthropic: new ChatAnthropic({ model, temperature: 0, apiKey, maxRetries: 0, maxTokens: 200, anthropicApiUrl: url }),
};
for (const [name, m] of Object.entries(chains)) {
  await client(`langchain_${name}`, async () => {
    const one = await m.invoke([new HumanMessage('Hello!')]);
    assert.ok(one.text.length > 0 && one.usage_metadata.input_tokens > 0);
    let said = '';
    for await (const piece of await m.stream([new HumanMessage('Hello!')])) said += piece.text;
    assert.equal(said, one.text);
    const add = chainTool(({ a, b }) => String(a + b), { name: 'add', description, schema });
    const bound = m.bindTools([add]), history = [new HumanMessage(question)];
    const call = await bound.invoke(history);
    assert.deepEqual(call.tool_calls[0].args, { a: 417, b: 288 });
    history.push(call, new ToolMessage({ content: await add.invoke(call.tool_calls[0].args), tool_call_id: call.tool_calls[0].id }));
    assert.ok((await bound.invoke(history)).usage_metadata.input_tokens > call.usage_metadata.input_tokens);
  });
}

const openai = new OpenAI({ baseURL: base, apiKey, maxRetries: 0 });
for (const [name, m] of Object.entries({ chat: new OpenAIChatCompletionsModel(openai, model), responses: new OpenAIResponsesModel(openai, model) })) {
  await client(`openai_agents_${name}`, async () => {
    const add = agentTool({ name: 'add', description, parameters: schema, strict: true, execute: ({ a, b }) => String(a + b) });
    const agent = new Agent({ name: 'adder', instructions: '', model: m, tools: [add], toolUseBehavior: 'stop_on_first_tool', modelSettings: { temperature: 0, maxTokens: 200 } });
    const first = await run(agent, question, { maxTurns: 2 });
    assert.equal(first.finalOutput, '705');
    // Its own history, with the call and its result, and one question more.
    const plain = new Agent({ name: 'plain', instructions: 'Be brief.', model: m, modelSettings: { temperature: 0, maxTokens: 60 } });
    await run(plain, [...first.history, { role: 'user', content: 'Hello!' }], { maxTurns: 1 });
    const streamed = await run(agent, question, { maxTurns: 2, stream: true });
    for await (const event of streamed) assert.ok(event.type);
    await streamed.completed;
    assert.equal(streamed.finalOutput, '705');
  });
}

await test('stops_with_0', async () => {
  recorder.close();
  assert.equal(await server.stop(), 0);
});
finish();
