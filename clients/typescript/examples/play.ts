// Plays tasks of each environment with the actions of its expert, all environments side by side.
//
//   node dist/examples/play.js HOST:PORT EPISODES ENVIRONMENT...

import { Connection, Episode, type Task } from "../src/index.js";

async function play(connection: Connection, task: Task): Promise<[Episode, number | undefined]> {
  let [episode, state] = await Episode.open(connection, task);
  while (!state.ended) {
    const { action } = await episode.advice();
    state = await episode.step(action);
  }
  await episode.close();
  return [episode, state.score ?? state.reward];
}

async function playSome(connection: Connection, environment: string, episodes: number) {
  let rebuilds = 0;
  let left = episodes;
  for await (const { itemId } of connection.tasks(environment)) {
    if (left-- === 0) break;
    const [episode, score] = await play(connection, { environment, itemId });
    console.log(`${itemId} score ${score} steps ${episode.seq}`);
    rebuilds += episode.rebuilds;
  }
  return rebuilds;
}

const [address, episodes, ...environments] = process.argv.slice(2);
if (!address || !(Number(episodes) > 0) || environments.length === 0) {
  console.error("usage: play HOST:PORT EPISODES ENVIRONMENT...");
  process.exit(2);
}
const token = process.env["AGENTGYM_TOKEN"];
const connection = new Connection(address, token ? { token } : {});
try {
  const rebuilds = await Promise.all(
    environments.map((environment) => playSome(connection, environment, Number(episodes))),
  );
  const total = rebuilds.reduce((sum, count) => sum + count, 0);
  console.log(`reconnects ${connection.reconnects} rebuilds ${total}`);
} catch (error) {
  console.error(String(error));
  process.exitCode = 1;
} finally {
  await connection.close();
}
