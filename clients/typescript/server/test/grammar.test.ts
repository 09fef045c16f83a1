import assert from "node:assert/strict";
import { test } from "node:test";

import { ActionFormat, Grammar } from "../src/index.js";
import { UNREADABLE } from "../src/grammar.js";
import { readCall, UnreadableCode, writeLiteral } from "../src/python.js";

const grammar = new Grammar(
  [
    {
      name: "say",
      description: "Say something.",
      parameters: { text: { type: "string" }, times: { type: "integer", required: false } },
      render: ({ text, times = 1 }) => `${String(text)} x${String(times)}`,
    },
  ],
  (text) => ["say", { text }],
);
const { REACT, FUNCTION_CALLING, CODE_AS_ACTION } = ActionFormat;

test("the last action of a ReAct reply counts, without its blanks", () => {
  assert.equal(grammar.read("Action: a\nThought: no\nAction:\n b c \n", REACT), "b c");
  assert.equal(grammar.read("I do not know", REACT), "");
});

test("a function call is the JSON between the first and the last brace", () => {
  const reply = 'Sure:\n{"thought": "two\nlines", "function_name": "say", "arguments": {"text": "a"}}!';
  assert.equal(grammar.read(reply, FUNCTION_CALLING), "a x1");
  for (const wrong of ["{", '{"function_name": "no"}', reply.replace('"a"', "1"), reply.replace("text", "t")]) {
    assert.equal(grammar.read(wrong, FUNCTION_CALLING), UNREADABLE);
  }
});

test("code is one call of literals, and is never executed", () => {
  const read = (code: string) => grammar.read(`\`\`\`python\n${code}\n\`\`\``, CODE_AS_ACTION);
  assert.equal(read("# why\nsay('it\\'s', times=2)"), "it's x2");
  assert.equal(read('say(text="a" \'b\',)  # done'), "ab x1");
  for (const wrong of ["say(f())", "say('a'); say('b')", "x = 1", "say('a', text='b')", "say('a', 1, 2)", ""]) {
    assert.equal(read(wrong), UNREADABLE, wrong);
  }
});

test("what a scripted player says in a format is read again", () => {
  for (const action of ["plain", "it's \"quoted\" \\ and\nbroken ``` here", "\u{1f600}"]) {
    for (const format of [FUNCTION_CALLING, CODE_AS_ACTION]) {
      assert.equal(grammar.read(grammar.write({ action, thought: "x" }, format), format), `${action} x1`);
    }
  }
});

test("literals are read as Python reads them", () => {
  const value = (code: string) => readCall(`f(${code})`).positional[0];
  assert.deepEqual(value("[1, -2.5, True, None, {'a': (1,)}]"), [1, -2.5, true, null, { a: [1] }]);
  assert.equal(value("r'\\n'"), "\\n");
  assert.equal(value("'''a\nb'''"), "a\nb");
  assert.equal(value("'\\x41\\u00e9\\101'"), "A\u00e9A");
  assert.equal(value(writeLiteral("line\u2028end\u0007")), "line\u2028end\u0007");
  for (const wrong of ["'a", "1e999", "b'x'", "[".repeat(200), "'\\N{BULLET}'"]) {
    assert.throws(() => value(wrong), UnreadableCode, wrong);
  }
});
