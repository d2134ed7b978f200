// The storage emulator in memory: blobs, queues and tables, each on a free port; ends when its standard
// input does.
"use strict";

process.stdin.on("end", () => process.exit(0)).resume();
process.argv.push("--blobPort", "0", "--queuePort", "0", "--tablePort", "0", "--inMemoryPersistence", "--disableTelemetry", "--silent");
require("azurite/dist/src/azurite.js");
