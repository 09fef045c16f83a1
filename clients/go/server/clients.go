package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"google.golang.org/grpc/metadata"
)

// NamedToken is good for some things: "play" admits to episodes, "operate" to everybody's in
// ListEpisodes.
type NamedToken struct {
	Token  string
	Scopes []string
}

// client is who calls.
type client struct {
	// name is empty for whoever is not told apart.
	name   string
	scopes []string
}

var anybody = &client{scopes: []string{"play", "operate"}}

// clients are told apart by their tokens; by their digests, so that comparing tells nothing by its time.
type clients map[[sha256.Size]byte]*client

func newClients(token string, named map[string]NamedToken) (clients, error) {
	known := clients{}
	if token != "" {
		known[sha256.Sum256([]byte(token))] = anybody
	}
	for name, each := range named {
		if name == "" || each.Token == "" {
			return nil, fmt.Errorf("a named token needs a name and a token")
		}
		known[sha256.Sum256([]byte(each.Token))] = &client{name, each.Scopes}
	}
	return known, nil
}

func (c clients) of(ctx context.Context) (*client, error) {
	if len(c) == 0 {
		return anybody, nil
	}
	carried, _ := metadata.FromIncomingContext(ctx)
	for _, authorization := range carried.Get("authorization") {
		token := strings.TrimPrefix(authorization, "Bearer ")
		if known := c[sha256.Sum256([]byte(token))]; known != nil && token != authorization {
			return known, nil
		}
	}
	return nil, refuse("UNAUTHENTICATED", "a bearer token is required, and this is not it")
}

func (c clients) inScope(ctx context.Context, scope string) (*client, error) {
	caller, err := c.of(ctx)
	if err == nil && !caller.has(scope) {
		message := fmt.Sprintf("the token of %s does not have the scope %s", caller.name, scope)
		err = refuse("UNAUTHENTICATED", message)
	}
	return caller, err
}

func (c *client) has(scope string) bool {
	for _, each := range c.scopes {
		if each == scope {
			return true
		}
	}
	return false
}
