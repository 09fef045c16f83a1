// Plays tasks of each environment with the actions of its expert, all environments side by side.
//
//   play HOST:PORT EPISODES ENVIRONMENT...

#include <cstdlib>
#include <future>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "agentgym/episode.h"

namespace {

int PlaySome(agentgym::Connection& connection, const std::string& environment,
             std::size_t episodes) {
  int rebuilds = 0;
  for (const auto& task : connection.Tasks(environment, "eval", episodes)) {
    agentgym::pb::Reset reset;
    reset.set_environment(environment);
    reset.set_item_id(task.item_id());
    agentgym::Episode episode(connection, reset);
    agentgym::Transition state = episode.start();
    while (!state.ended()) state = episode.Step(episode.Advice().action());
    episode.Close();
    const auto score = state.score ? state.score : state.reward;
    std::ostringstream line;  // written at once: others play meanwhile
    line << task.item_id() << " score " << score.value() << " steps " << episode.seq() << "\n";
    std::cout << line.str() << std::flush;
    rebuilds += episode.rebuilds();
  }
  return rebuilds;
}

}  // namespace

int main(int argc, char** argv) {
  const long episodes = argc > 2 ? std::atol(argv[2]) : 0;
  if (argc < 4 || episodes <= 0) {
    std::cerr << "usage: play HOST:PORT EPISODES ENVIRONMENT...\n";
    return 2;
  }
  try {
    agentgym::Options options;
    if (const char* token = std::getenv("AGENTGYM_TOKEN")) options.token = token;
    agentgym::Connection connection(argv[1], options);
    std::vector<std::future<int>> players;
    for (int i = 3; i < argc; ++i) {
      players.push_back(std::async(std::launch::async, PlaySome, std::ref(connection),
                                   std::string(argv[i]), episodes));
    }
    int rebuilds = 0;
    for (auto& player : players) rebuilds += player.get();
    std::cout << "reconnects " << connection.reconnects() << " rebuilds " << rebuilds << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
