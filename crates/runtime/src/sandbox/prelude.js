(() => {
  const { write, exit, arguments: given, environment, stdin, now, seed } = globalThis.host;
  delete globalThis.host;
  delete globalThis.performance;
  const show = (value) => {
    if (typeof value === "string") return value;
    if (typeof value === "object" && value !== null) return JSON.stringify(value);
    return String(value);
  };
  const print = (toStderr) => (...values) => {
    if (!write(toStderr, values.map(show).join(" ") + "\n")) throw new RangeError("the output is too large");
  };
  const [out, err] = [print(false), print(true)];
  globalThis.console = { log: out, info: out, debug: out, error: err, warn: err, trace: err };
  globalThis.process = {
    argv: ["js", "script", ...given],
    env: environment,
    stdin: { fd: 0, text: stdin },
    exit: (code = 0) => {
      exit(code | 0);
      throw new Error("exit");
    },
  };
  const Real = Date;
  const Fixed = new Proxy(Real, {
    construct: (target, values, self) => Reflect.construct(target, values.length ? values : [now], self),
    apply: () => new Real(now).toString(),
    get: (target, key, self) => (key === "now" ? () => now : Reflect.get(target, key, self)),
  });
  Real.prototype.constructor = Fixed;
  globalThis.Date = Fixed;
  // xoshiro128**
  const state = Uint32Array.from(seed);
  const turn = (value, bits) => (value << bits) | (value >>> (32 - bits));
  const draw = () => {
    const result = Math.imul(turn(Math.imul(state[1], 5), 7), 9) >>> 0;
    const shifted = state[1] << 9;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = turn(state[3], 11);
    return result;
  };
  Math.random = () => (draw() * 2097152 + (draw() >>> 11)) / 9007199254740992;
})();
