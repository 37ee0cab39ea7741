package proxy_test

import (
	"strings"
	"testing"
)

// TestForkOfAnotherClientIsKept opens one session in two clients. In one of them, the user continues in a fork of it, or switches to
// another thread. The other client uses the session afterwards. Each conversation has its own session in the list of the next run, and
// the id that both clients have is that of the fork.
func TestForkOfAnotherClientIsKept(t *testing.T) {
	for _, command := range []string{"/fork", "/switch"} {
		for _, use := range []string{"a mode", "a load", "a fork"} {
			t.Run(command+" and "+use, func(t *testing.T) {
				r, one, s := startSession(t, none) // only segno lists its sessions
				r.say(one, s, "alpha")
				target := ""
				if command == "/switch" {
					other := r.open(one, "new", "")
					r.say(one, other, "elsewhere")
					target = " " + r.log()[0].Thread
				}
				two := r.second(s)
				r.order(two, s, command+target)
				r.say(two, s, "moved")
				switch use {
				case "a mode":
					r.choose(one, s, "plan")
				case "a load":
					r.open(one, "load", s)
				case "a fork":
					r.order(one, s, "/fork")
				}
				r.say(one, s, "beta")
				r.wantSeen([]string{"alpha", "beta"}, "moved")
				r.leave(one)
				r.leave(two)

				c := r.client()
				listed, _ := r.listed(c, r.project)
				have := map[string]string{} // the conversations, by session
				for id := range listed {
					from := c.Place()
					r.open(c, "load", id)
					have[id] = strings.Join(shown(c, from), "\n")
				}
				for _, prompt := range []string{"beta", "moved"} {
					found := 0
					for _, text := range have {
						if strings.Contains(text, "said-"+prompt) {
							found++
						}
					}
					if found != 1 {
						t.Errorf("%d sessions have the turn %q, of %v", found, prompt, have)
					}
				}
				if use != "a fork" && !strings.Contains(have[s], "said-moved") {
					t.Errorf("the session %s has\n%s", s, have[s])
				}
			})
		}
	}
}
