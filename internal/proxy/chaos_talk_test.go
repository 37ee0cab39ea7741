package proxy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/testing/acptest"
)

// talk is one conversation of a chaos.
type talk struct {
	*chaos
	name  string
	turns []plannedTurn // the remaining turns
	cwd   string
	id    string // the client's id of the session

	place     string   // the directory, by a name that stays when the directory is moved
	accepted  []string // the names of prompts that a model received, or whose turns ended well
	undone    []string // the accepted prompts that were undone
	since     []int    // the number of requests to models at the time of each undo
	knows     []string // lines that were appended before the fork
	forgets   []string // lines of turns that were undone
	stray     []string // lines that a move may have left in the file, and reported
	ran       int      // turns
	asked     int      // how often the client asked to continue
	edits     int
	intruders int
	calm      []calmTurn        // the newest turns, back to the last fault
	ahead     []calmTurn        // turns that were just undone and can be redone
	newest    *acptest.Received // the answer to the newest prompt, if the session was not opened since
}

// begin opens a new session for the conversation.
func (k *talk) begin() (err error) {
	if k.plan.adopted && k.name == "a" {
		err = k.adopt()
	} else {
		k.id, err = k.client.Open(k.ctx, "new", "", k.cwd)
	}
	if err != nil || !k.plan.plan {
		return err
	}
	_, err = k.client.Call(k.ctx, "session/set_mode", map[string]string{"sessionId": k.id, "modeId": "plan"})
	return err
}

// comeBack opens the conversation with the id that its client knows.
func (k *talk) comeBack(client *acptest.Client) error {
	k.newest = nil
	method := []string{"load", "resume"}[len(k.clients)%2]
	k.tell("session/%s", method)
	from := client.Place()
	if _, err := client.Open(k.ctx, method, k.id, k.cwd); err != nil {
		return fmt.Errorf("session/%s with the id the client knows: %w", method, err)
	}
	if method == "load" {
		k.everythingReplayed(client.Messages()[from:])
	}
	list, err := client.List(k.ctx, k.cwd)
	if err == nil && len(k.accepted) > 0 && !slices.ContainsFunc(list, func(l acptest.Listed) bool { return l.SessionID == k.id }) {
		err = fmt.Errorf("session/list does not have %s: %v", k.id, list)
	}
	return err
}

// effects returns the lines that a request to a model must contain.
func (k *talk) effects() []string {
	var lines []string
	for _, line := range k.ledger() {
		if k.mine(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func (k *talk) mine(line string) bool {
	return (strings.Contains(line, "-"+k.name+"-") || slices.Contains(k.knows, line)) && !slices.Contains(k.forgets, line)
}

// everythingReplayed checks that a client that loads the session receives every accepted
// prompt.
func (k *talk) everythingReplayed(shown []acptest.Received) {
	var prompts strings.Builder
	for _, r := range shown {
		if r.Update() == "user_message_chunk" {
			prompts.WriteString(r.Content() + "\n")
		}
	}
	for _, name := range k.accepted {
		if !strings.Contains(prompts.String(), name+":") {
			k.t.Errorf("session/load does not show %s, but\n%s", name, prompts.String())
		}
	}
	for _, name := range k.undone {
		if strings.Contains(prompts.String(), name+":") {
			k.t.Errorf("session/load shows %s, which was undone:\n%s", name, prompts.String())
		}
	}
}

// say prompts and waits for the end, and executes the turn's deed meanwhile. It reports
// whether the turn ended as the agent intended.
func (k *talk) say(name, text string, turn plannedTurn) (bool, error) {
	ok, err := k.sayTo(k.client, name, name+": "+text, turn)
	if err != nil {
		return ok, err
	}
	switch turn.deed {
	case restart:
		if err := k.leave(); err != nil {
			return ok, err
		}
		return ok, k.reconnect()
	case killSegno, killBoth:
		return ok, k.reconnect()
	}
	return ok, nil
}

func (k *talk) sayTo(client *acptest.Client, name, text string, turn plannedTurn) (bool, error) {
	k.tell("prompt %s", name)
	if client == k.client {
		k.nothingLate(client)
	}
	t, err := client.Prompt(k.id, text)
	if err != nil {
		return false, err
	}
	next, err := k.inTheMidst(client, t, name, turn)
	if err != nil {
		return false, err
	}
	stop, err := t.Stop(k.ctx)
	if next != nil && err == nil {
		_, err = k.ended(name+"-queued", next, turn.deed)
	}
	if !errors.Is(err, acptest.ErrEnded) && stop.Answer.Line == nil {
		return false, err
	}
	return k.ended(name, t, turn.deed)
}

// ended waits for the end of a turn. It reports whether the turn ended as the agent
// intended.
func (k *talk) ended(name string, t *acptest.Turn, deed string) (bool, error) {
	stop, err := t.Stop(k.ctx)
	var refused *acp.Error
	switch {
	case err == nil:
		k.tell("%s ended: %s", name, stop.Reason)
	case errors.As(err, &refused):
		k.tell("%s ended: %v %s", name, refused, refused.Data)
	case errors.Is(err, acptest.ErrEnded) && slices.Contains([]string{killSegno, killBoth, restart}, deed):
		k.tell("%s has no answer: segno is gone", name)
	default:
		return false, err
	}
	ok := stop.Reason == "end_turn"
	if k.newest = nil; deed == "" && stop.Answer.Line != nil {
		k.newest = &stop.Answer
	}
	if ok || k.seen(name) {
		k.accepted = append(k.accepted, name)
	}
	return ok, nil
}

// inTheMidst executes the turn's deed after the planned number of messages. If the deed is
// another prompt, next is the turn of that prompt.
func (k *talk) inTheMidst(client *acptest.Client, t *acptest.Turn, name string, turn plannedTurn) (next *acptest.Turn, err error) {
	if turn.deed == "" {
		return nil, nil
	}
	came := 0
	_, err = client.Await(k.ctx, t.From, func(r acptest.Received) bool {
		came++
		return came > turn.after || r.IsResponse() && r.IDText() == t.ID
	})
	if errors.Is(err, acptest.ErrEnded) {
		return nil, fmt.Errorf("segno is gone: %s", client.Stderr())
	}
	if err != nil {
		return nil, err
	}
	k.tell("%s after %d messages", turn.deed, came)
	if turn.deed == queue {
		return client.Prompt(k.id, name+"-queued: and then?")
	}
	k.strike(turn.deed, k)
	return nil, nil
}

// nothingLate checks that no message of a turn arrived after its answer.
func (k *talk) nothingLate(client *acptest.Client) {
	if k.newest == nil {
		return
	}
	for _, m := range client.Messages()[k.newest.Place:] {
		switch m.Update() {
		case "tool_call", "tool_call_update", "agent_message_chunk":
			if m.SessionID() == k.id && !strings.HasPrefix(m.Content(), "segno: ") {
				k.t.Errorf("behind the turn's answer came %s", m.Line)
			}
		}
	}
}

// prepare executes the events before the next turn.
func (k *talk) prepare() error {
	for _, deed := range k.turns[0].before {
		if err := k.do(deed, k); err != nil {
			return fmt.Errorf("%s: %w", deed, err)
		}
		k.filesAgree()
	}
	return nil
}

// next runs the next turn. If alone is false, the turn has no deed.
func (k *talk) next(alone bool) error {
	turn := k.turns[0]
	k.turns = k.turns[1:]
	if !alone {
		turn.deed = ""
	}
	name := fmt.Sprintf("prompt-%s-%d", k.name, k.ran)
	k.ran++
	return k.take(calmTurn{name: name, steps: turn.steps, shared: !alone && !k.alone()}, turn.deed, func() error { return k.run(turn, name) })
}

// take runs a turn of the schedule, and records whether it was a calm one.
func (k *talk) take(turn calmTurn, deed string, run func() error) error {
	had := len(k.accepted)
	turn.before, k.ahead = k.mineNow(), nil
	if err := run(); err != nil {
		return err
	}
	if turn.after = k.mineNow(); len(k.accepted) != had+1 || deed != "" {
		k.calm = nil
		return nil
	}
	k.calm = append(k.calm, turn)
	return nil
}

// run prompts until the turn's script is done. After a failed turn, the user asks to
// continue.
func (k *talk) run(turn plannedTurn, name string) error {
	faults := 4 // a locked or full store may also refuse a few prompts
	for _, s := range turn.steps {
		faults += s.Times
	}
	_, err := k.say(name, acptest.Directive(turn.steps...), turn)
	return k.goOn(turn, name, faults, err)
}

// goOn asks to continue until a turn's script is done.
func (k *talk) goOn(turn plannedTurn, name string, faults int, err error) error {
	for n := 1; err == nil && !k.done(turn); n++ {
		if n > faults {
			return fmt.Errorf("%s does not end: asked to go on %d times", name, n)
		}
		text := "please go on"
		if !k.seen(name) || n%3 == 0 {
			text += " with " + acptest.Directive(turn.steps...) // the directive did not arrive, or only a part of it
		}
		k.asked++
		_, err = k.say(fmt.Sprintf("go-on-%s-%d", k.name, k.asked), text, plannedTurn{})
	}
	return err
}

// last prompts again until a turn succeeds, because some faults may not have happened yet.
func (k *talk) last() error {
	const patience = 8
	for n := range patience {
		ok, err := k.say(fmt.Sprintf("last-%s-%d", k.name, n), "what did you do so far?", plannedTurn{})
		if ok || err != nil {
			return err
		}
	}
	return errors.New("no turn ends any more")
}

// done reports whether all lines of a turn are in the ledger.
func (k *talk) done(turn plannedTurn) bool {
	lines := k.ledger()
	for _, s := range turn.steps {
		if s.Tool != "" && !strings.Contains(s.Line, refused) && !slices.Contains(lines, s.Line) {
			return false
		}
	}
	return true
}
