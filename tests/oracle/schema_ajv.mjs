// Reads lines {"schema", "values"} and answers each with a line: what ajv says of each value.
import Ajv from "ajv/dist/2020.js";
import readline from "node:readline";

const Ajv2020 = Ajv.default ?? Ajv;
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { schema, values } = JSON.parse(line);
  let answer;
  try {
    const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(schema);
    answer = values.map((v) => validate(v));
  } catch (e) {
    answer = String(e.message);
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
