// The storage emulator's blob server, in memory, on a free port; ends when its standard input does.
"use strict";

process.stdin.on("end", () => process.exit(0)).resume();
process.argv.push("--blobPort", "0", "--inMemoryPersistence", "--disableTelemetry", "--silent");
require("azurite/dist/src/blob/main.js");
