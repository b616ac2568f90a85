// The chat page in Chromium (playwright-core), judged for accessibility by axe-core. Prints `ok NAME`
// or `not ok NAME`. RIPTIDE_PAGE_SHOTS=FOLDER keeps screenshots, to be looked at.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import axe from 'axe-core';
import { chromium } from 'playwright-core';
import { finish, startServer, test } from './sdk_server.mjs';

const server = await startServer('--api-key', 'secret', '--lanes', '2');
const browser = await chromium.launch({ executablePath: process.argv[2], args: ['--no-sandbox', '--disable-gpu'] });
const shots = process.env.RIPTIDE_PAGE_SHOTS;
const problems = []; // what any page complained of, or asked of others

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, colorScheme: 'light', ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  page.on('pageerror', (error) => problems.push(`error: ${error}`));
  page.on('console', (m) => m.type() === 'error' && !/status of 401|ERR_|Failed to load resource/.test(m.text()) && problems.push(m.text()));
  page.on('request', (r) => new URL(r.url()).origin !== server.url && !r.url().startsWith('data:') && problems.push(`asked ${r.url()}`));
  await page.addInitScript(() => sessionStorage.getItem('riptide.key') ?? sessionStorage.setItem('riptide.key', 'secret'));
  await page.goto(server.url);
  return page;
}
async function shot(page, name) {
  if (!shots) return;
  fs.mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: path.join(shots, `${name}.png`) });
}
async function ask(page, text) {
  await page.fill('#text', text);
  await page.press('#text', 'Enter');
}
const settled = (page) => page.waitForSelector('#send:not(.hidden)');
const last = (page) => page.locator('.turn.assistant').last();

// An answer of the server's shape with a text of our own.
const reply = (...deltas) => `${deltas.map((delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`).join('')}data: [DONE]\n\n`;
const say = (page, ...deltas) => page.route('**/v1/chat/completions', (route) => route.fulfill({
  contentType: 'text/event-stream', body: reply(...deltas) }));

await test('an_answer_streams_with_its_reasoning_folded', async () => {
  const page = await open();
  await page.fill('#temperature', '0');
  await ask(page, 'What is 12 + 30?');
  await settled(page);
  const answer = last(page);
  assert.match(await answer.locator('> .body').innerText(), /42/);
  const think = answer.locator('details.think');
  assert.equal(await think.evaluate((d) => d.open), false);
  assert.ok((await think.locator('.body').evaluate((d) => d.textContent)).length > 5);
  assert.match(await answer.locator('.facts').innerText(), /\d+ tokens · [\d.]+ tokens\/s.* of \d+ prompt tokens from the cache/);
  assert.match(await page.locator('#title').innerText(), /mini-dense/);
  // The next turn sends all of it again.
  const [sent] = await Promise.all([page.waitForRequest('**/v1/chat/completions'), ask(page, 'What is 15 + 41?')]);
  const { messages, temperature } = JSON.parse(sent.postData());
  assert.deepEqual(messages.map((m) => m.role), ['user', 'assistant', 'user']);
  assert.ok(messages[1].reasoning_content.length > 0);
  assert.equal(temperature, 0);
  await settled(page);
  await shot(page, 'desktop');
  await page.reload();
  assert.equal(await page.locator('.turn').count(), 4);
  await page.click('#list li button:nth-child(2)');
  assert.equal(await page.locator('.turn').count(), 0);
  await page.reload();
  assert.equal(await page.locator('#list li').count(), 0);
  await page.context().close();
});

await test('stop_ends_the_work', async () => {
  const page = await open();
  await page.route('**/v1/chat/completions', (route, asked) => route.continue({ // without an end of its own
    postData: JSON.stringify({ ...JSON.parse(asked.postData()), ignore_eos: true }) }));
  for (const how of [() => page.click('#stop'), () => page.keyboard.press('Escape')]) {
    await ask(page, 'Tell a story of 9 days about Juno in Lima.');
    await page.waitForFunction(() => [...document.querySelectorAll('.turn.assistant')].at(-1)?.textContent.length > 60);
    await how();
    await settled(page);
    assert.match(await last(page).innerText(), /Stopped\./);
  }
  for (let i = 0; ; i++) {
    const { http } = await (await fetch(`${server.url}/status`, { headers: { authorization: 'Bearer secret' } })).json();
    if (http.generations === 0) break;
    assert.ok(i < 100, 'the server goes on');
    await new Promise((r) => setTimeout(r, 100));
  }
  await page.context().close();
});

await test('markdown_becomes_elements_and_never_markup', async () => {
  const page = await open();
  await say(page, { role: 'assistant', content: '' }, { reasoning_content: '<b>thought</b>' },
    { content: '# Title\n\nSome **bold** and `x<y` and [here](https://example.org/a) and [no](javascript:alert(1)).\n\n- one\n- two\n\n' },
    { content: '```c\nint main(void);\n' }, { content: '```\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n> said\n\n' },
    { content: '<img src=x onerror="window.broken = 1"><script>window.broken = 1</script>\n\n1. first\n2. second' },
    { tool_calls: [{ index: 0, id: 'c', function: { name: 'add', arguments: '{"a":' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '1}' } }] });
  await ask(page, '<i>hello</i>');
  await settled(page);
  const body = last(page).locator('> .body');
  assert.equal(await page.locator('.turn.user').innerText(), '<i>hello</i>');
  assert.equal(await body.locator('h2').innerText(), 'Title');
  assert.equal(await body.locator('strong').innerText(), 'bold');
  assert.equal(await body.locator('p code').innerText(), 'x<y');
  assert.deepEqual(await body.locator('ul li').allInnerTexts(), ['one', 'two']);
  assert.deepEqual(await body.locator('ol li').allInnerTexts(), ['first', 'second']);
  assert.equal(await body.locator('pre code').innerText(), 'int main(void);');
  assert.deepEqual(await body.locator('td').allInnerTexts(), ['1', '2']);
  assert.equal(await body.locator('blockquote').innerText(), 'said');
  assert.deepEqual(await body.locator('a').evaluateAll((list) => list.map((a) => a.href)), ['https://example.org/a']);
  assert.equal(await body.locator('img, script').count(), 0);
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.equal(await last(page).locator('details.call .body').evaluate((d) => d.textContent), '{"a":1}');
  await shot(page, 'markdown');
  await page.click('#shade');
  await shot(page, 'markdown-dark');
  await page.context().close();
});

await test('dark_and_light_follow_the_system_until_chosen', async () => {
  const page = await open({ colorScheme: 'dark' });
  const isDark = () => page.evaluate(() => document.documentElement.classList.contains('dark'));
  assert.equal(await isDark(), true);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.waitForFunction(() => !document.documentElement.classList.contains('dark'));
  await page.click('#shade');
  await page.reload();
  assert.equal(await isDark(), true);
  await page.context().close();
});

await test('it_is_accessible_and_fits_a_phone', async () => {
  for (const colorScheme of ['light', 'dark']) {
    for (const viewport of [{ width: 1200, height: 800 }, { width: 360, height: 640 }]) {
      const page = await open({ colorScheme, viewport });
      await say(page, { reasoning_content: 'thought' }, { content: `\`\`\`\n${'wide '.repeat(60)}\n\`\`\`\n\n${'w'.repeat(300)}` });
      await ask(page, 'word '.repeat(40));
      await settled(page);
      await last(page).locator('details summary').click();
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(over, 0, `${viewport.width} px: ${over} px too wide`);
      await shot(page, `${colorScheme}-${viewport.width}`);
      if (viewport.width < 700) {
        await page.click('#menu');
        assert.ok(await page.locator('#side').isVisible());
      }
      await page.evaluate(axe.source);
      const { violations } = await page.evaluate(() => window.axe.run());
      const bad = violations.filter((v) => ['serious', 'critical'].includes(v.impact));
      assert.deepEqual(bad.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`), [], `${colorScheme} ${viewport.width}`);
      await page.context().close();
    }
  }
});

await test('the_keyboard_reaches_everything', async () => {
  const page = await open();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'text');
  const reached = new Set();
  for (let i = 0; i < 20; i++) {
    await page.keyboard.press('Tab');
    reached.add(await page.evaluate(() => document.activeElement.id));
  }
  for (const id of ['send', 'new', 'system', 'temperature', 'limit', 'think', 'menu', 'shade', 'log']) assert.ok(reached.has(id), id);
  await page.focus('#text');
  await page.keyboard.type('one');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('two');
  assert.equal(await page.inputValue('#text'), 'one\ntwo');
  await page.context().close();
});

await test('a_key_is_asked_for_and_then_used', async () => {
  const page = await open();
  await page.evaluate(() => sessionStorage.setItem('riptide.key', 'wrong'));
  await ask(page, 'Hello.');
  await settled(page);
  assert.match(await last(page).innerText(), /key is missing or wrong/);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'key');
  await page.fill('#key', 'secret');
  await page.press('#key', 'Tab');
  await page.fill('#limit', '4');
  await ask(page, 'What is 1 + 2?');
  await settled(page);
  assert.match(await last(page).innerText(), /limit of tokens was reached/);
  await page.context().close();
});

await test('nothing_else_runs_and_nobody_else_is_asked', async () => {
  assert.deepEqual(problems, []);
  const reply = await fetch(server.url);
  assert.match(reply.headers.get('content-type'), /^text\/html/);
  const policy = reply.headers.get('content-security-policy');
  assert.match(policy, /default-src 'none'; script-src 'nonce-[0-9a-f]{32}'; style-src 'nonce-[0-9a-f]{32}'; connect-src 'self'/);
  assert.notEqual((await fetch(server.url)).headers.get('content-security-policy'), policy);
  const page = await open();
  await page.evaluate(() => {
    const s = document.createElement('script');
    s.textContent = 'window.broken = 1';
    document.head.append(s);
  });
  assert.equal(await page.evaluate(() => window.broken), undefined);
  await page.context().close();
});

await browser.close();
await test('stops_with_0', async () => {
  assert.equal(await server.stop(), 0);
});
finish();
