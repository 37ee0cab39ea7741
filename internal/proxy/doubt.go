package proxy

import (
	"cmp"
	"time"

	"github.com/dalsegno/segno/internal/acp"
)

// longDoubt is by how much longer a doubted turn may be silent if the agent was seen to work
// on it: a tool may run for long.
const longDoubt = 30

// doubt begins to watch a turn because the agent sent an answer under the id of no request,
// which may have been the turn's. It was not if the agent goes on with the turn. The turn
// fails if the agent does not; fail does that.
func (s *session) doubt(t *turn, fail func()) {
	if s.turn == t && t.doubted == nil {
		s.watchTurn(t, 1, fail)
	}
}

// watchTurn waits for so many times the usual wait, then decides.
func (s *session) watchTurn(t *turn, times time.Duration, fail func()) {
	signs, id := t.signs, t.sentAs
	t.doubted = time.AfterFunc(times*cmp.Or(s.proxy.strayWait, answerWait), func() {
		s.box.put(0, func() {
			switch {
			case s.turn != t || t.sentAs != id: // it was answered, or sent again
			case s.owesAnswer():
				s.watchTurn(t, times, fail)
			case t.signs == signs && (times == longDoubt || !t.inCall()):
				// Should the agent be at work after all, its work would not be recorded.
				t.proc.write(s.box, acp.Notification("session/cancel", acp.Encode(map[string]any{"sessionId": s.up})))
				s.proxy.work.Go(fail)
			default:
				s.watchTurn(t, longDoubt, fail)
			}
		})
	})
}

// endDoubt ends the watch: the turn was answered, or is sent again.
func (t *turn) endDoubt() {
	if t.doubted != nil {
		t.doubted.Stop()
		t.doubted = nil
	}
}

// inCall reports whether a tool call of the turn has not ended.
func (t *turn) inCall() bool {
	for _, c := range t.calls {
		if !c.ended {
			return true
		}
	}
	return false
}

// owesAnswer reports whether the agent waits for the client in this session.
func (s *session) owesAnswer() bool {
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	for _, q := range s.proxy.asked {
		if q.of == s {
			return true
		}
	}
	return false
}
