import assert from "node:assert/strict";
import { test } from "node:test";

import { create } from "@bufbuild/protobuf";

import { Commands } from "../src/commands.js";
import { CommandSchema, type Event } from "../src/gen/agentgym/env/v1/environment_pb.js";
import {
  ActionFormat,
  DEFAULT_LIMITS,
  EnvironmentServer,
  Grammar,
  type Environment,
  type EnvironmentSpec,
} from "../src/index.js";
import { Environments } from "../src/opening.js";
import { Session } from "../src/session.js";

/** Counts its steps; without a fork of its own, and with a step that never comes back. */
class Counter implements Environment {
  private count = 0;
  reset() {
    return { text: "0" };
  }
  step(action: string) {
    if (action === "hang") return new Promise<never>(() => {});
    return { text: String(++this.count) };
  }
}

const counter: EnvironmentSpec = {
  name: "counter",
  version: "1",
  description: "Counts.",
  splits: { eval: { first: 0, size: 3 } },
  grammar: new Grammar([], (action) => ["", { action }]),
  conversationStarts: [[ActionFormat.REACT, { instruction: "Count." }]],
  maxRounds: 5,
  create: () => new Counter(),
};

type Init = Parameters<typeof create<typeof CommandSchema>>[1];

async function answers(spec: EnvironmentSpec, ...commands: Init[]): Promise<Event[]> {
  const limits = { ...DEFAULT_LIMITS, stepLimitMs: 20 };
  const handler = new Commands(new Environments([spec], limits), limits);
  const client = { name: "", scopes: new Set(["play"] as const) };
  const events: Event[] = [];
  for (const command of commands) {
    const session = new Session(client, "test", limits, (sent) => events.push(...sent.events) > 0);
    handler.handle(session, create(CommandSchema, command));
    await session.finish();
  }
  return events;
}

const reset = { episodeId: "e", body: { case: "reset", value: { itemId: "1" } } } as const;

test("a fork of an environment that cannot copy itself plays the journal", async () => {
  const fork = { case: "fork", value: { fromEpisodeId: "e" } } as const;
  const [, first, copy, step] = await answers(
    counter,
    reset,
    { episodeId: "e", seq: 1n, body: { case: "action", value: "a" } },
    { episodeId: "f", seq: 1n, body: fork },
    { episodeId: "f", seq: 2n, body: { case: "action", value: "a" } },
  );
  assert.deepEqual(copy?.stateHash, first?.stateHash);
  assert.equal(step?.body.value, "2");
});

test("a step that does not come back ends its episode as ENVIRONMENT_HUNG", async () => {
  const hang = { episodeId: "e", seq: 1n, body: { case: "action", value: "hang" } } as const;
  const [, hung, again] = await answers(counter, reset, hang, hang);
  for (const event of [hung, again]) {
    assert.equal(event?.body.case, "error");
    assert.match(String(event.body.value.message), /did not answer in 20 ms/);
  }
});

test("an observation that breaks the contract is the environment's fault", async () => {
  const wrong = [{ text: "x", reward: NaN }, { text: "x", terminated: true }, {}];
  for (const observation of wrong) {
    const create = () => ({ ...new Counter(), reset: () => observation, step: () => observation });
    const [event] = await answers({ ...counter, create } as unknown as EnvironmentSpec, reset);
    assert.match(String((event?.body.value as Error | undefined)?.message), /it gave/);
  }
});

test("plain text beyond this machine is refused", async () => {
  await assert.rejects(EnvironmentServer.start([counter], { address: "0.0.0.0:0" }), /TLS/);
});

test("an opening whose stream was lost is held by nobody", async () => {
  const limits = DEFAULT_LIMITS;
  const handler = new Commands(new Environments([counter], limits), limits);
  const client = { name: "", scopes: new Set(["play"] as const) };
  const session = new Session(client, "test", limits, () => true);
  handler.handle(session, create(CommandSchema, reset));
  handler.detach(session);
  await new Promise((resolve) => setImmediate(resolve));
  const episode = handler.episodes.get("e");
  assert.ok(episode);
  assert.equal(episode.session, undefined);
});
