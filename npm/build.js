// Makes the npm packages of a release from the output directory of goreleaser:
//
//   node npm/build.js dist
//
// writes dist/npm/segno, which has the launcher, and one package for each platform, which has the
// binaries. 'npm publish' of each directory publishes them, the platforms first.
'use strict';
const fs = require('node:fs');
const path = require('node:path');

const dist = process.argv[2];
const { version } = JSON.parse(fs.readFileSync(path.join(dist, 'metadata.json'), 'utf8'));
const artifacts = JSON.parse(fs.readFileSync(path.join(dist, 'artifacts.json'), 'utf8'));
const main = JSON.parse(fs.readFileSync(path.join(__dirname, 'package.json'), 'utf8'));
const out = path.join(dist, 'npm');
fs.rmSync(out, { recursive: true, force: true });

function writeManifest(dir, manifest) {
  fs.writeFileSync(path.join(dir, 'package.json'), JSON.stringify(manifest, null, 2) + '\n');
}

const { description, license, repository } = main;
const optionalDependencies = {};
for (const artifact of artifacts.filter((a) => a.type === 'Binary')) {
  const os = artifact.goos;
  const cpu = artifact.goarch === 'amd64' ? 'x64' : artifact.goarch;
  const name = `${main.name}-${os}-${cpu}`;
  const dir = path.join(out, `segno-${os}-${cpu}`);
  const target = path.join(dir, 'bin', artifact.name);
  fs.mkdirSync(path.dirname(target), { recursive: true });
  fs.copyFileSync(artifact.path, target);
  fs.chmodSync(target, 0o755);
  writeManifest(dir, { name, version, description, license, repository, files: ['bin'], os: [os], cpu: [cpu] });
  optionalDependencies[name] = version;
}
fs.cpSync(path.join(__dirname, 'bin'), path.join(out, 'segno', 'bin'), { recursive: true });
writeManifest(path.join(out, 'segno'), { ...main, version, optionalDependencies });
