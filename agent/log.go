package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// run is one Run under way: the thread it works on, what the thread's line adds up
// to, and what is drafted for the next commit.
type run struct {
	*Agent
	in   Input
	out  chan<- Event
	stop <-chan struct{} // closed when nobody listens any more

	thread   segno.ThreadID
	head     segno.Head
	at       segno.CommitID // the newest checkpoint at the head
	lease    *lease
	state    *segno.State
	msgs     []Message       // state.Messages, decoded
	ids      map[string]bool // of their calls
	shown    []Message       // what the model is shown of them
	cost     int             // of shown, in bytes
	values   *Values
	turn     int
	prompt   string
	open     bool          // the turn is not over
	wrote    bool          // the run has committed something
	resting  bool          // the run is about to end in mid-turn
	entered  segno.TurnKey // the turn that is open at the site
	entries  []segno.Entry // drafted
	members  membership
	moving   bool                   // it only moves the thread
	asked    map[string]*segno.Node // where what may wait stands on the line, by kind and id
	onLine   map[segno.CommitID]bool
	shells   map[int]int // by turn: how many commands it ran
	forked   bool        // it is a fork that has done nothing yet
	steps    int
	nudges   int
	ends     map[int]*segno.Node     // by turn: the commit that ended it with an answer
	prompts  map[int]*segno.Node     // by turn: the commit that holds its prompt
	deciding map[string]bool         // questions that the drafted decisions answer
	answers  bool                    // the drafted decisions are those that Config.Answer gave
	missing  []segno.Answer          // approvals of calls whose tools this agent does not have
	unsummed bool                    // the model gave no summary
	abort    context.CancelCauseFunc // ends the run
	parent   *run                    // of a subagent's
	sub      string                  // the subagent's name
}

// load reads the thread's line.
func (r *run) load(ctx context.Context) error {
	var line *segno.Line
	err := r.retry(ctx, func() (err error) {
		line, err = r.Store.Load(ctx, r.head.Head, segno.Window{Entries: true})
		return err
	})
	if err != nil {
		return fmt.Errorf("load thread: %w", err)
	}
	if r.state, err = segno.Fold(line); err != nil {
		return err
	}
	r.msgs, r.ids = nil, map[string]bool{"": true}
	for i, body := range r.state.Messages {
		var m Message
		if err := json.Unmarshal(body, &m); err != nil {
			return segno.NewError(segno.KindCorrupt, "read message", fmt.Sprintf("%s, %d", r.thread, i+1), err)
		}
		r.hear(m)
	}
	r.values = newValues(r.state.Values)
	r.showAll()
	r.locate(line)
	r.turn = r.state.Turn
	for i := len(line.Commits) - 1; i >= 0; i-- {
		if line.Commits[i].Checkpoint != nil {
			r.at = line.Commits[i].ID
			break
		}
	}
	newest := line.Commits[len(line.Commits)-1].Checkpoint
	r.forked = newest != nil && newest.Kind == segno.CheckpointBase && newest.Parent != ""
	for i := len(line.Commits) - 1; i >= 0; i-- {
		c := line.Commits[i].Checkpoint
		if c == nil || c.Kind != segno.CheckpointTurn && c.Kind != segno.CheckpointStep {
			continue // a fork's beginning, or somebody's files: the turn is where it was
		}
		r.open = (c.Kind != segno.CheckpointTurn || c.Interrupted) && !r.saidAll()
		r.members.set(c.Members)
		break
	}
	for i := len(line.Commits) - 1; i >= 0 && r.open; i-- {
		if c := line.Commits[i].Checkpoint; c != nil && c.Turn == r.turn && c.Prompt != "" {
			r.prompt = c.Prompt // the turn's first step has all of it
		}
	}
	return nil
}

// locate notes what is on the line, and where its questions and intents are.
func (r *run) locate(line *segno.Line) {
	r.shells, r.prompts, r.ends = map[int]int{}, map[int]*segno.Node{}, map[int]*segno.Node{}
	r.asked, r.onLine = map[string]*segno.Node{}, make(map[segno.CommitID]bool, len(line.Commits))
	for i := range line.Commits {
		n := &line.Commits[i]
		r.place(n)
		for _, e := range n.Entries {
			r.count(&e)
		}
	}
}

// place notes a commit of the line, and what it asks, answers, begins and ends.
func (r *run) place(n *segno.Node) {
	r.onLine[n.ID] = true
	if c := n.Checkpoint; c != nil && c.Kind == segno.CheckpointTurn && !c.Interrupted {
		r.ends[c.Turn] = n
	}
	for _, e := range n.Entries {
		switch e.Kind {
		case segno.EntryMessage:
			if e.Name == string(User) && r.prompts[e.Turn] == nil {
				r.prompts[e.Turn] = n
			}
		case segno.EntryInterrupt, segno.EntryIntent, segno.EntryDecision:
			r.asked[string(e.Kind)+e.ID] = n
		}
	}
}

// count counts the commands of a turn, by the name of the tool that runs them.
func (r *run) count(e *segno.Entry) {
	if e.Kind == segno.EntryIntent && e.Name == "execute" {
		r.shells[e.Turn]++
	}
}

// hear adds a message to the conversation.
func (r *run) hear(m Message) {
	r.msgs = append(r.msgs, m)
	for _, c := range m.Calls() {
		r.ids[c.ID] = true
	}
}

// saidAll reports whether the conversation ends with the model's last word.
func (r *run) saidAll() bool {
	if len(r.msgs) == 0 {
		return true
	}
	last := &r.msgs[len(r.msgs)-1]
	return last.Role == Assistant && len(last.Calls()) == 0
}

// draft adds an entry to the next commit; what the thread adds up to has it at once.
func (r *run) draft(e segno.Entry) error {
	e.Turn = r.turn
	if e.Time.IsZero() {
		e.Time = r.Now()
	}
	if err := r.state.Apply(&e); err != nil {
		return err
	}
	r.count(&e)
	r.entries = append(r.entries, e)
	return nil
}

// say drafts a message.
func (r *run) say(m Message) error {
	if m.ID == "" {
		m.ID = segno.NewID()
	}
	if m.Time.IsZero() {
		m.Time = r.Now()
	}
	body, err := segno.Encode(m)
	if err != nil {
		return segno.NewError(segno.KindInvalid, "record message", m.ID, err)
	}
	// The model is shown what the log has, now as after a restart.
	var kept Message
	if err := json.Unmarshal(body, &kept); err != nil {
		return segno.NewError(segno.KindInvalid, "record message", m.ID, err)
	}
	r.hear(kept)
	r.show(kept)
	return r.draft(segno.Entry{Kind: segno.EntryMessage, ID: m.ID, Name: string(m.Role), Time: m.Time, Body: body})
}

// note drafts an event that a tool told.
func (r *run) note(e Event) error {
	body, err := segno.Encode(e)
	if err != nil {
		return segno.NewError(segno.KindInvalid, "record event", string(e.Kind), err)
	}
	return r.draft(segno.Entry{Kind: segno.EntryNote, Name: noteEvent, Body: body})
}

const (
	noteEvent   = "event"   // a note whose body is an [Event]
	noteSummary = "summary" // a note whose body is a [summary]
	noteAnswer  = "answer"  // a note whose body is the structured answer
	noteSaid    = "said"    // a note whose body is what was said beside that answer
)

// begin takes the thread: it makes it if there is none, gets the lease and loads it.
func (r *run) begin(ctx context.Context) error {
	r.thread = segno.ThreadID(r.in.Thread)
	if r.thread == "" {
		r.thread = segno.ThreadID(segno.NewID())
	}
	if err := segno.CheckID("run agent", string(r.thread)); err != nil {
		return err
	}
	head, err := r.headOf(ctx, r.thread)
	if segno.KindOf(err) == segno.KindNotFound {
		if r.in.Prompt == "" && len(r.in.Parts) == 0 {
			none := segno.Errorf(segno.KindNotFound, "run agent", string(r.thread), "there is no such thread").WithHint("give it a prompt to begin with")
			if r.moving {
				none.Op, none.Hint = "find thread", ""
			}
			return none
		}
		head, err = r.create(ctx)
	}
	if err != nil {
		return fmt.Errorf("find thread: %w", err)
	}
	r.head = head
	if r.lease, err = r.acquire(ctx); err != nil {
		return err
	}
	if err := r.replayPending(ctx); err != nil {
		return err
	}
	return r.reload(ctx)
}

// reload reads where the thread is, and what it adds up to.
func (r *run) reload(ctx context.Context) (err error) {
	if r.head, err = r.headOf(ctx, r.thread); err != nil {
		return err
	}
	return r.load(ctx)
}

// create makes the thread, with the checkpoint that undo can go back to.
func (r *run) create(ctx context.Context) (segno.Head, error) {
	now := r.Now()
	t := &segno.Thread{ID: r.thread, Created: now, Title: timeline.Title(r.in.Prompt), Agent: r.Name}
	if r.parent != nil {
		t.ParentThread, t.Name = r.parent.thread, r.sub
	}
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: r.thread, Create: t,
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: now, Agent: r.Name}}
	head, err := r.commitWithRetry(ctx, c)
	if kind := segno.KindOf(err); kind == segno.KindConflict || kind == segno.KindFenced {
		return r.Store.Head(ctx, r.thread) // another run was first; the lease says whose turn it is
	}
	if segno.KindOf(err) == segno.KindNotFound {
		err = segno.Errorf(segno.KindRefused, "run agent", string(r.thread), "a thread of that name was deleted").WithHint("choose another name")
	}
	if err == nil {
		r.tellAll(eventsOf(&segno.Node{ID: c.ID, Thread: c.Thread, Seq: head.Seq, Checkpoint: c.Checkpoint}, r.sub))
	}
	return head, err
}
