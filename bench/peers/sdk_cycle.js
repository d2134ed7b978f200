'use strict';
// sdk_cycle.js: writes a blob and reads it through the official SDK, again and again.
//
//   node sdk_cycle.js CYCLES      on AZURE_STORAGE_CONNECTION_STRING; prints the CPU time of the cycles alone
const { BlobServiceClient } = require('@azure/storage-blob');

const WARM_UP = 200;
const BODY = 'a flag, a lock, a few bytes of state: what coordination writes..';
const service = BlobServiceClient.fromConnectionString(process.env.AZURE_STORAGE_CONNECTION_STRING);
const blob = service.getContainerClient('bench').getBlockBlobClient('cycle');

async function repeated(count) {
  for (let i = 0; i < count; i++) {
    await blob.upload(BODY, BODY.length);
    const answer = await blob.download();
    let text = '';
    for await (const part of answer.readableStreamBody) text += part;
    if (text !== BODY) throw new Error('the blob came back changed');
  }
}

async function main() {
  const cycles = Number(process.argv[2]);
  await repeated(WARM_UP);
  const cpu = process.cpuUsage(), wall = performance.now();
  await repeated(cycles);
  const used = process.cpuUsage(cpu);
  console.log(JSON.stringify({
    requests: cycles * 2, cpu_ms: (used.user + used.system) / 1e3, wall_ms: performance.now() - wall,
  }));
}

main();
