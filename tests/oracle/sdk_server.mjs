// Starts `riptide serve` with the bundled model for a client test, and counts cases.
import { spawn } from 'node:child_process';
import path from 'node:path';

const root = process.env.RIPTIDE_ROOT || path.resolve(import.meta.dirname, '../..');
export const program = path.resolve(root, process.env.RIPTIDE_BUILD || 'build', 'riptide');

// Resolves to { url, stop }; stop() resolves to the exit status.
export function startServer(...flags) {
  const model = path.join(root, 'models/mini-dense');
  const child = spawn(program, ['serve', '--model', model, '--port', '0', '--max-context', '4096',
    '--threads', '2', ...flags], { stdio: ['ignore', 'pipe', 'inherit'] });
  process.on('exit', () => child.kill('SIGKILL'));
  const ended = new Promise((resolve) => child.on('exit', resolve));
  const stop = () => {
    child.kill('SIGTERM');
    return ended;
  };
  return new Promise((resolve, reject) => {
    let text = '';
    child.on('error', reject);
    child.on('exit', (code) => reject(new Error(`${program} ended with ${code}`)));
    child.stdout.on('data', (bytes) => {
      text += bytes;
      const found = /^Ready .*?(http:\S+)\/v1/m.exec(text);
      if (found) resolve({ url: found[1], stop });
    });
  });
}

let failures = 0;

export async function test(name, run) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    failures++;
    console.log(String(error?.stack || error));
    console.log(`not ok ${name}`);
  }
}

export const finish = () => process.exit(failures ? 1 : 0);
