package web

import (
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Scopes is a set of the things that a token allows.
type Scopes uint8

// The scopes.
const (
	ScopeRead   Scopes = 1 << iota // read everything
	ScopeDecide                    // answer the questions of agents
	ScopeMove                      // undo, redo, restore, fork, pin, rename and delete; also decide
	ScopeWrite                     // store threads from elsewhere: push
	ScopeSend                      // send prompts and signals to the threads of a fleet, retry and cancel prompts

	// ownerScopes is what the token of the server itself allows.
	ownerScopes = ScopeRead | ScopeDecide | ScopeMove | ScopeSend
)

// scopeNames are the names of the scopes, in the order of their bits.
var scopeNames = [...]string{"read", "decide", "move", "write", "send"}

// ParseScopes reads names that are separated by commas.
func ParseScopes(text string) (s Scopes, err error) {
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(scopeNames[:], strings.TrimSpace(name))
		if i < 0 {
			return 0, segno.Errorf(segno.KindInvalid, "read scopes", text, "unknown scope %q", name).
				WithHint("use some of " + strings.Join(scopeNames[:], ", "))
		}
		s |= 1 << i
	}
	return s.withImplied(), nil
}

// withImplied adds the scopes that others include.
func (s Scopes) withImplied() Scopes {
	if s&ScopeMove != 0 {
		s |= ScopeDecide
	}
	return s
}

// String returns the names of the scopes, separated by commas.
func (s Scopes) String() string {
	var names []string
	for i, name := range scopeNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// require returns [segno.KindRefused] unless s has all scopes of want. A route that declares no scope is refused.
func (s Scopes) require(want Scopes) error {
	if want != 0 && s&want == want {
		return nil
	}
	return segno.Errorf(segno.KindRefused, "check request", "", "the token does not allow %q", want.String()).
		WithHint("use a token with this scope; 'segno serve token add' makes one")
}

// routeScopes is the scope that each route needs.
var routeScopes = map[string]Scopes{
	"GET /store":                           ScopeRead,
	"GET /threads":                         ScopeRead,
	"GET /threads/{id}":                    ScopeRead,
	"GET /threads/{id}/timeline":           ScopeRead,
	"GET /threads/{id}/file":               ScopeRead,
	"GET /threads/{id}/usage":              ScopeRead,
	"GET /checkpoints/{id}":                ScopeRead,
	"GET /checkpoints/{id}/usage":          ScopeRead,
	"GET /checkpoints/{id}/text":           ScopeRead,
	"GET /checkpoints/{id}/export":         ScopeRead,
	"GET /changes":                         ScopeRead,
	"GET /diff":                            ScopeRead,
	"GET /file":                            ScopeRead,
	"GET /operations":                      ScopeRead,
	"GET /search":                          ScopeRead,
	"GET /experiments":                     ScopeRead,
	"GET /experiments/{name}":              ScopeRead,
	"GET /experiments/{name}/outcomes.svg": ScopeRead,
	"GET /experiments/{name}/archive":      ScopeRead,
	"GET /openapi.json":                    ScopeRead,
	"GET /events":                          ScopeRead,

	"POST /previews":          ScopeDecide, // every verb but decide also needs move
	"POST /previews/next":     ScopeMove,
	"GET /previews/{id}/diff": ScopeMove,
	"POST /moves":             ScopeDecide, // as its preview
	"POST /demo":              ScopeMove,

	"POST /threads/{id}/prompts":              ScopeSend,
	"GET /threads/{id}/prompts":               ScopeRead,
	"GET /threads/{id}/prompts/{key}":         ScopeRead,
	"POST /threads/{id}/prompts/{key}/retry":  ScopeSend,
	"POST /threads/{id}/prompts/{key}/cancel": ScopeSend,
	"POST /threads/{id}/decisions":            ScopeDecide,
	"POST /threads/{id}/signals":              ScopeSend,
	"GET /fleet":                              ScopeRead,
	"GET /fleet/prompts":                      ScopeRead,
	"GET /fleet/inbox":                        ScopeRead,

	"GET /raw/head":             ScopeRead,
	"GET /raw/wait":             ScopeRead,
	"GET /raw/line":             ScopeRead,
	"GET /raw/threads":          ScopeRead,
	"GET /raw/checkpoints":      ScopeRead,
	"GET /raw/chain":            ScopeRead,
	"GET /raw/workspaces":       ScopeRead,
	"GET /raw/operations":       ScopeRead,
	"GET /raw/objects/{hash}":   ScopeRead,
	"POST /raw/objects/missing": ScopeRead,
	"POST /raw/objects/read":    ScopeRead,
	"POST /raw/objects/reached": ScopeRead,
	"POST /raw/objects":         ScopeWrite,
	"POST /raw/commit":          ScopeWrite,
}

type scopesKey struct{}

// withScopes adds the scopes of a request's token to its context.
func withScopes(ctx context.Context, s Scopes) context.Context {
	return context.WithValue(ctx, scopesKey{}, s)
}

// requireVerb refuses a move that the token of the request does not allow.
func requireVerb(ctx context.Context, verb string) error {
	granted, _ := ctx.Value(scopesKey{}).(Scopes)
	if verb == "decide" {
		return granted.require(ScopeDecide)
	}
	return granted.require(ScopeMove)
}
