/** Workers for events of Windlass: a function, a name, and the types of events it wants. */

export { Away, Client, Lost, Refused } from "./client.js";
export { Fatal, Retry, batchHandler, handler } from "./handler.js";
export { Worker } from "./worker.js";
