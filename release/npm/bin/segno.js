#!/usr/bin/env node
// Runs the segno or segno-hook binary from the package of this platform, which npm installs as an
// optional dependency. The program in release/ makes those packages.
'use strict';
const { spawn } = require('node:child_process');
const path = require('node:path');
const tty = require('node:tty');

const command = path.basename(process.argv[1], '.js');
const platform = `@dalsegno/segno-${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${platform}/bin/${command}`);
} catch {
  console.error(`segno: package ${platform} is not installed\nhint: install @dalsegno/segno without --omit=optional`);
  process.exit(1);
}

// A terminal sends SIGINT to the program, too. A second one would end it at once, before it has saved its work.
const isInTerminal = [0, 1, 2].some((fd) => tty.isatty(fd));
let child;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) { // before the program starts, because a signal without a handler ends this one
  process.on(signal, () => {
    if (signal !== 'SIGINT' || !isInTerminal) child.kill(signal);
  });
}
child = spawn(binary, process.argv.slice(2), { stdio: 'inherit' });
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
