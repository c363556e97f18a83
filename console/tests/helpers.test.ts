// Pure helpers of the console: what they promise, one example each.
// @ts-expect-error: types of node are not among ours
import test from "node:test";
// @ts-expect-error: the same
import assert from "node:assert/strict";
import { bars, clock, duration, fieldOf, flaws, folds, hunks, initial, place, quoted, relative, shell, shortId, textDiff, withField } from "../src/format";

test("lengths of time have at most two units", () => {
  assert.deepEqual([5, 1500, 42_000, 60_000, 3_720_000, 90_000_000].map(duration), ["5 ms", "1.5 s", "42 s", "1 m", "1 h 2 m", "1 d 1 h"]);
});

test("times are told against now", () => {
  const now = Date.parse("2026-01-31T12:00:00Z");
  assert.equal(relative("2026-01-31T11:57:00Z", now), "3 m ago");
  assert.equal(relative("2026-01-31T15:00:00Z", now), "in 3 h");
  assert.equal(relative(null, now), "–");
  assert.equal(clock("2026-01-31T12:00:00.5Z", true), "2026-01-31 12:00:00.500Z");
});

test("ids keep their kind and their ends", () => {
  assert.equal(shortId("ins_01a1ed40f17770a3b0fcf574a39c2b41"), "ins_01a1…9c2b41");
  assert.equal(shortId("demo"), "demo");
});

test("a step that is visited twice has two bars, and retries count", () => {
  const at = (s: number) => new Date(s * 1000).toISOString();
  const rows = bars([
    { kind: "step.started", step: "/do/0/a", time: at(0) },
    { kind: "step.retried", step: "/do/0/a", time: at(1) },
    { kind: "step.completed", step: "/do/0/a", time: at(2), detail: { output: 1 } },
    { kind: "step.started", step: "/do/0/a", iteration: "~1", time: at(3) },
  ]);
  assert.deepEqual(rows.map((r) => [r.name, r.state, r.attempts, r.end]), [["a", "completed", 2, 2000], ["a", "running", 1, null]]);
  assert.equal(rows[0]!.output, 1);
});

test("a long wait is folded and what is around it keeps its order", () => {
  const times = [0, 1000, 2000, 7_202_000, 7_203_000];
  const folded = folds(times);
  assert.deepEqual(folded, [{ from: 2000, to: 7_202_000 }]);
  const places = times.map((t) => place(t, 0, 7_203_000, folded));
  assert.deepEqual([...places].sort((a, b) => a - b), places);
  assert.equal(places[0], 0);
  assert.ok(Math.abs(places[4]! - 1) < 1e-9);
  assert.ok(places[3]! - places[2]! < 0.07, "the fold is narrow");
  assert.deepEqual(folds([0, 1000, 2000]), []);
});

test("what changed between two texts is found, with a little around it", () => {
  const lines = textDiff("a\nb\nc", "a\nx\nc");
  assert.deepEqual(lines.map((l) => l.sign + l.text), [" a", "-b", "+x", " c"]);
  const far = textDiff(Array.from({ length: 20 }, (_, i) => `l${i}`).join("\n"), Array.from({ length: 20 }, (_, i) => (i === 10 ? "new" : `l${i}`)).join("\n"));
  assert.equal(hunks(far, 1).filter((l) => l === null).length, 2);
});

test("a field of a query is set, changed and taken away, quotes stay whole", () => {
  assert.equal(withField("", "status", "faulted"), "status:faulted");
  assert.equal(withField('status:faulted key:"a b"', "status", "waiting"), 'key:"a b" status:waiting');
  assert.equal(withField("status:faulted age:>1h", "status", null), "age:>1h");
  assert.equal(fieldOf("a status:waiting", "status"), "waiting");
  assert.equal(quoted('a "b"'), '"a \\"b\\""');
  assert.equal(shell("it's"), `'it'\\''s'`);
});

test("forms begin with defaults and say what is missing", () => {
  const schema = { type: "object", required: ["approved"], properties: { approved: { type: "boolean" }, level: { type: "integer", default: 2, maximum: 3 } } };
  assert.deepEqual(initial(schema), { level: 2 });
  assert.deepEqual(flaws(schema, { level: 4 }), { "/approved": "this is needed", "/level": "at most 3" });
  assert.deepEqual(flaws(schema, { approved: false, level: 1 }), {});
});
