package agent_test

import "context"

var works = map[string]func(ctx context.Context, dir, args string) error{}
