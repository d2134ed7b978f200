// The storage emulator in memory: blobs, queues and tables, each on a free port; ends when its standard
// input does.
"use strict";

process.stdin.on("end", () => process.exit(0)).resume();
process.argv.push("--blobPort", "0", "--queuePort", "0", "--tablePort", "0", "--inMemoryPersistence", "--disableTelemetry", "--silent");

// It looks for bodies that nothing needs any more once a minute (of messages) and every ten minutes (of blobs). That stops
// it for seconds when many were written, and in memory takes away the body of what is just being written. No spec lasts so
// long that it matters what is kept.
const DAY_MS = 24 * 60 * 60 * 1000;
for (const service of ["blob", "queue"]) {
  require(`azurite/dist/src/${service}/utils/constants`).DEFAULT_GC_INTERVAL_MS = DAY_MS;
}
require("azurite/dist/src/azurite.js");
