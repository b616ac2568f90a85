// A proxy between an agent and riptide: passes all on as it is, checks each reply and each event
// of a stream against the official types (tests/oracle/wire_schema.mjs), and keeps what was asked.
import http from 'node:http';
import { checkReply, StreamCheck } from '../oracle/wire_schema.mjs';

// Resolves to { url, exchanges, close }. exchanges: { method, path, body, code, events, text,
// usage, problem } in the order in which they began.
export function startRecorder(target) {
  const exchanges = [];
  const server = http.createServer((asked, answer) => {
    const one = { method: asked.method, path: asked.url.split('?')[0], query: asked.url.split('?')[1], headers: asked.headers };
    exchanges.push(one);
    const wrong = (error) => {
      one.problem ??= String(error?.message ?? error);
    };
    const out = http.request(new URL(asked.url, target), { method: asked.method,
      headers: { ...asked.headers, host: new URL(target).host } }, (reply) => {
      one.code = reply.statusCode;
      answer.writeHead(reply.statusCode, reply.headers);
      const streams = (reply.headers['content-type'] ?? '').startsWith('text/event-stream');
      const seen = streams ? new StreamCheck(one.path) : null;
      const decoder = new TextDecoder('utf-8', { fatal: true });
      let text = '';
      reply.on('data', (bytes) => {
        answer.write(bytes);
        try {
          const more = decoder.decode(bytes, { stream: true });
          text += more;
          seen?.feed(more);
        } catch (error) {
          wrong(error);
        }
      });
      reply.on('end', () => {
        answer.end();
        one.text = text;
        try {
          if (seen) seen.end();
          else if (text) checkReply(one.path, one.code, text);
        } catch (error) {
          wrong(error);
        }
        one.events = seen?.events;
        one.isOver = true;
      });
      reply.on('error', () => answer.destroy());
    });
    out.on('error', () => answer.destroy());
    answer.on('close', () => {
      if (!answer.writableEnded) one.wasLeft = true;
      out.destroy();
    });
    const parts = [];
    asked.on('data', (bytes) => {
      parts.push(bytes);
      out.write(bytes);
    });
    asked.on('end', () => {
      one.body = Buffer.concat(parts).toString();
      out.end();
    });
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({ url: `http://127.0.0.1:${server.address().port}`, exchanges,
      close: () => server.close() || server.closeAllConnections() }));
  });
}
