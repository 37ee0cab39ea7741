package proxy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// choose makes two choices of the client.
func (r *rig) choose(c *acptest.Client, session, mode string) {
	r.Helper()
	for method, params := range map[string]map[string]any{
		"session/set_mode":          {"modeId": mode},
		"session/set_config_option": {"configId": "model", "value": "big"},
	} {
		params["sessionId"] = session
		if _, err := c.Call(r.ctx, method, params); err != nil {
			r.Fatalf("%s: %v", method, err)
		}
	}
}

// TestSettingsSurviveSession checks that the client's choices apply to each later session
// of the agent: new, resumed or forked, by this process or the next.
func TestSettingsSurviveSession(t *testing.T) {
	t.Parallel()
	for name, agent := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, agent)
			c, s := r.session()
			r.choose(c, s, "plan")
			const want = `mode="plan" option model="big"`
			r.say(c, s, "alpha")
			if got := r.sent().Settings; got != want {
				t.Fatalf("at first: %s", got)
			}
			holds := func(when string) {
				t.Helper()
				if got := r.sent().Settings; got != want {
					t.Errorf("%s: the settings are %s; want %s", when, got, want)
				}
			}
			r.killAgent()
			r.say(c, s, "beta")
			holds("after the agent's death")
			c = r.comeBack(c, "load", s)
			r.say(c, s, "gamma")
			holds("after a load")
			c = r.comeBack(c, "resume", s)
			r.say(c, s, "delta")
			holds("after a resume")
			r.order(c, s, "/undo")
			r.say(c, s, "epsilon")
			holds("after an undo")
			fork := r.open(c, "fork", s)
			r.say(c, fork, "zeta")
			holds("in a fork")
			r.choose(c, fork, "default")
			r.killAgent()
			r.say(c, s, "eta")
			holds("in the source, after a choice in the fork")
		})
	}
}

// TestNewestSettingApplies repeats only the newest choice, even if the agent made it.
func TestNewestSettingApplies(t *testing.T) {
	r, c, s := startSession(t, none)
	r.choose(c, s, "plan")
	r.choose(c, s, "bypass")
	r.turn(c, s, "alpha "+acptest.Directive(acptest.Say("x"),
		acptest.Step{Raw: json.RawMessage(`{"sessionUpdate":"current_mode_update","currentModeId":"default"}`)}))
	r.killAgent()
	from := c.Place()
	r.say(c, s, "beta")
	if got := r.sent().Settings; got != `mode="default" option model="big"` {
		t.Errorf("the settings are %s", got)
	}
	for _, m := range c.Messages()[from:] {
		if m.Update() == "current_mode_update" && !strings.Contains(string(m.Line), `"default"`) {
			t.Errorf("the client received a mode that was replaced: %s", m.Line)
		}
	}
}

// TestRefusedSettingIsNotRepeated forwards the agent's refusal and does not repeat the choice.
func TestRefusedSettingIsNotRepeated(t *testing.T) {
	r, c, s := startSession(t, none)
	_, err := c.Call(r.ctx, "session/set_model", map[string]string{"sessionId": s, "modelId": "huge"})
	r.refused(err)
	r.say(c, s, "alpha")
	r.killAgent()
	r.say(c, s, "beta")
	r.leave(c)
	if got := c.Stderr(); strings.Contains(got, "set_model") {
		t.Errorf("it was repeated:\n%s", got)
	}
}

// TestSettingBeforeFirstPrompt checks that a choice applies to the new session for a client
// that reconnects.
func TestSettingBeforeFirstPrompt(t *testing.T) {
	eachAgent(t, kinds(), func(t *testing.T, r *rig) {
		c, s := r.session()
		r.choose(c, s, "plan")
		c = r.comeBack(c, "resume", s)
		r.say(c, s, "alpha")
		if got := r.sent().Settings; got != `mode="plan" option model="big"` {
			t.Errorf("the settings are %s", got)
		}
	})
}
