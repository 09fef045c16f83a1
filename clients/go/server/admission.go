package server

import (
	"fmt"
	"strconv"
	"time"
)

const (
	// So long a client that was refused counts among those who share.
	askedFor = 5 * time.Second
	retryAt  = 500 * time.Millisecond
)

// account is what one client holds.
type account struct {
	episodes int
	asked    time.Time
}

// admission says how many episodes a server takes, and whose (R49, R58); under Commands' lock.
type admission struct {
	limits   *Limits
	draining bool
	live     int
	accounts map[string]*account
}

// admit counts another episode of a client, where there is room for it.
func (a *admission) admit(client string, now time.Time) (*account, error) {
	if a.draining {
		return nil, refuse("DRAINING", "this server is shutting down and opens no more episodes").
			after(time.Second)
	}
	mine := a.accounts[client]
	if mine == nil {
		mine = &account{}
		a.accounts[client] = mine
	}
	mine.asked = now
	if err := a.require(mine, now); err != nil {
		return nil, err.after(retryAt)
	}
	mine.episodes++
	a.live++
	return mine, nil
}

func (a *admission) release(of *account) {
	of.episodes--
	a.live--
}

func (a *admission) require(mine *account, now time.Time) *commandError {
	most := a.limits.MaxEpisodesPerClient
	if most > 0 && mine.episodes >= most {
		return refuse("CLIENT_LIMIT", fmt.Sprintf("this client has %d live episodes", most))
	}
	free, clients := a.limits.MaxEpisodes-a.live, a.present(now)
	share := 1
	for _, part := range []int{a.limits.MaxEpisodes / clients, free} {
		if part > share {
			share = part
		}
	}
	if clients > 1 && mine.episodes >= share {
		message := fmt.Sprintf("%d clients share this server: more than %d are too many", clients, share)
		return refuse("CAPACITY_EXHAUSTED", message, "share", strconv.Itoa(share))
	}
	if free <= 0 {
		message := fmt.Sprintf("no room for another episode: %d are live", a.live)
		return refuse("CAPACITY_EXHAUSTED", message)
	}
	return nil
}

// present counts the clients that hold an episode or asked for one a moment ago.
func (a *admission) present(now time.Time) int {
	for client, each := range a.accounts {
		if each.episodes == 0 && now.Sub(each.asked) > askedFor {
			delete(a.accounts, client)
		}
	}
	return len(a.accounts)
}
