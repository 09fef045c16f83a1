// Plays tasks of each environment with the actions of its expert, all environments side by side.
//
//	play HOST:PORT EPISODES ENVIRONMENT...
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"

	"agentgym"
	envv1 "agentgym/env/v1"
)

func play(ctx context.Context, connection *agentgym.Connection, task *envv1.Reset) (int, error) {
	episode, state, err := agentgym.Open(ctx, connection, task)
	if err != nil {
		return 0, err
	}
	for !state.Ended() {
		advice, err := episode.Advice(ctx, envv1.Advisor_ADVISOR_EXPERT, 0)
		if err != nil {
			return 0, err
		}
		if state, err = episode.Step(ctx, advice.GetAction()); err != nil {
			return 0, err
		}
	}
	score := state.Score
	if score == nil {
		score = state.Reward
	}
	if score == nil {
		return 0, fmt.Errorf("%s was not scored", task.GetItemId())
	}
	fmt.Printf("%s score %g steps %d\n", task.GetItemId(), *score, episode.Seq)
	return episode.Rebuilds, episode.Close(ctx)
}

func playSome(
	ctx context.Context, connection *agentgym.Connection, environment string, episodes int,
) (int, error) {
	tasks, err := connection.Tasks(ctx, environment, "eval", episodes)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, task := range tasks {
		reset := &envv1.Reset{Environment: environment, ItemId: task.GetItemId()}
		rebuilds, err := play(ctx, connection, reset)
		if err != nil {
			return total, err
		}
		total += rebuilds
	}
	return total, nil
}

func playAll(address string, episodes int, environments []string) error {
	options := agentgym.Options{Token: os.Getenv("AGENTGYM_TOKEN")}
	connection, err := agentgym.Connect(address, options)
	if err != nil {
		return err
	}
	defer connection.Close()
	var group sync.WaitGroup
	rebuilds := make([]int, len(environments))
	failures := make([]error, len(environments))
	for i, environment := range environments {
		group.Add(1)
		go func(i int, environment string) {
			defer group.Done()
			rebuilds[i], failures[i] = playSome(
				context.Background(), connection, environment, episodes)
		}(i, environment)
	}
	group.Wait()
	total := 0
	for i, err := range failures {
		if err != nil {
			return err
		}
		total += rebuilds[i]
	}
	fmt.Printf("reconnects %d rebuilds %d\n", connection.Reconnects(), total)
	return nil
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: play HOST:PORT EPISODES ENVIRONMENT...")
		os.Exit(2)
	}
	episodes, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = playAll(os.Args[1], episodes, os.Args[3:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
