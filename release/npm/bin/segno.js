#!/usr/bin/env node
// Runs the segno or segno-hook binary from the package of this platform, which npm installs as an
// optional dependency. The program in release/ makes those packages.
'use strict';
const { spawn } = require('node:child_process');
const path = require('node:path');

const command = path.basename(process.argv[1], '.js');
const platform = `@dalsegno/segno-${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${platform}/bin/${command}`);
} catch {
  console.error(`segno: package ${platform} is not installed\nhint: install @dalsegno/segno without --omit=optional`);
  process.exit(1);
}

const child = spawn(binary, process.argv.slice(2), { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => child.kill(signal));
}
child.on('error', (error) => {
  console.error(`segno: run ${binary}: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
