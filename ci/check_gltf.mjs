// Validates GLB files with the Khronos glTF validator: `node ci/check_gltf.mjs FILE...` (npm: gltf-validator 2.0.0-dev.3.10).
// Errors fail; warnings other than that our own extension is not known to the validator fail too.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The package is looked for from the working directory, so that it need not be installed in the project.
const validator = createRequire(pathToFileURL(`${process.cwd()}/`))("gltf-validator");
const ours = new Set(["UNSUPPORTED_EXTENSION", "UNUSED_OBJECT"]);
let failed = process.argv.length < 3;
for (const file of process.argv.slice(2)) {
  const report = await validator.validateBytes(new Uint8Array(readFileSync(file)), { maxIssues: 20 });
  const bad = report.issues.messages.filter((m) => m.severity < 2 && !ours.has(m.code));
  const { numErrors, numWarnings, numInfos } = report.issues;
  console.log(`${file}: ${numErrors} errors, ${numWarnings} warnings, ${numInfos} infos`);
  for (const m of bad) console.log(`  ${m.code} at ${m.pointer}: ${m.message}`);
  failed ||= numErrors > 0 || bad.length > 0;
}
process.exit(failed ? 1 : 0);
