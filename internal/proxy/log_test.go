package proxy_test

import (
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// rudeAgent is an agent of shell. It writes a line that is not a message, and has lost every session that it shall resume. Both texts have
// control characters, and the second one has a newline.
const rudeAgent = `printf 'junk-begins \302\2332J\177\342\200\256\033[2J\n'
while read -r l; do
	id=$(printf '%s' "$l" | sed 's/.*"id":\([^,}]*\).*/\1/')
	case "$l" in
	*'"initialize"'*) r='"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}';;
	*'"session/new"'*) r='"result":{"sessionId":"s"}';;
	*'"session/resume"'*) r='"error":{"code":-32002,"message":"error-begins \u001b[2J\u009b2J\u007f\nsegno acp: forged"}';;
	*) r='"result":{"stopReason":"end_turn"}';;
	esac
	printf '%s\n' '{"jsonrpc":"2.0","id":'"$id,$r}"
done`

// TestLogHasNoControlCharacters reads the log of segno with rudeAgent, as a user does in a terminal. It has no control character of the
// agent, and no line that the agent wrote.
func TestLogHasNoControlCharacters(t *testing.T) {
	t.Parallel()
	r := newRig(t, none)
	log := ""
	for _, prompt := range []string{"alpha", "beta"} {
		c := r.start(acptest.ClientOptions{}, "", "sh", "-c", rudeAgent)
		if _, err := c.Initialize(r.ctx, nil); err != nil {
			t.Fatal(err)
		}
		s := "s"
		if prompt == "alpha" {
			s = r.open(c, "new", "")
		}
		r.turn(c, s, prompt)
		r.leave(c)
		log += c.Stderr()
	}
	for _, part := range []string{"junk-begins", "error-begins"} {
		if !strings.Contains(log, part) {
			t.Errorf("the log lacks %q:\n%q", part, log)
		}
	}
	if strings.Contains(log, "\nsegno acp: forged") {
		t.Errorf("the agent has written a line of the log:\n%q", log)
	}
	if i := strings.IndexFunc(log, func(r rune) bool { return r != '\n' && printable.IsUnsafe(r) }); i >= 0 {
		t.Errorf("the log has the control character %q:\n%q", log[i:i+3], log)
	}
}
