package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/timeline"
)

// slash is a command that a user types as a prompt and the proxy answers.
type slash struct {
	name, hint, text string
	run              func(s *session, ctx context.Context, args string) (string, error)
}

// slashes are the commands, in the order they are offered.
func slashes() []slash {
	return []slash{
		{"checkpoints", "", "list this conversation's checkpoints", (*session).slashCheckpoints},
		{"undo", "number of turns, --force", "undo the newest turns, files and conversation together", (*session).slashUndo},
		{"redo", "number of turns, --force", "do again what was undone", (*session).slashRedo},
		{"restore", "checkpoint, --force", "go to a checkpoint, files and conversation together", (*session).slashRestore},
		{"fork", "name", "go on in a fork of this conversation; the original stays as it is", (*session).slashFork},
		{"switch", "thread", "go on with another thread of this directory; without one, list them", (*session).slashSwitch},
		{"edit", "turn, new text", "take a turn and all after it back and send it anew", nil},
	}
}

// command reads a prompt as one of the commands.
func command(text string) (name, args string, ok bool) {
	word, rest := cutWord(strings.TrimSpace(text))
	if !strings.HasPrefix(word, "/") {
		return "", "", false
	}
	for _, c := range slashes() {
		if c.name == word[1:] {
			return c.name, rest, true
		}
	}
	return "", "", false
}

// cutWord cuts a text behind its first word.
func cutWord(text string) (word, rest string) {
	if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
		return text[:i], strings.TrimSpace(text[i:])
	}
	return text, ""
}

// offerCommands adds our commands to the list the agent announces.
func offerCommands(m acp.Message) []acp.Edit {
	list := m.Find(m.Params, "update", "availableCommands")
	if list.IsZero() || m.Line[list.From] != '[' {
		return nil
	}
	var all []string
	shadows := false
	m.Elements(list, func(c acp.Span) {
		if isCommand(m.Text(m.Find(c, "name"))) {
			shadows = true
			return
		}
		all = append(all, string(c.Of(m.Line)))
	})
	ours := []string{}
	for _, c := range slashes() {
		ours = append(ours, string(acp.Encode(c.announcement())))
	}
	if shadows { // a name that both have is ours
		return []acp.Edit{{At: list, With: []byte("[" + strings.Join(append(all, ours...), ",") + "]")}}
	}
	text := strings.Join(ours, ",")
	if len(all) > 0 {
		text = "," + text
	}
	at := list.To - 1
	return []acp.Edit{{At: acp.Span{From: at, To: at}, With: []byte(text)}}
}

func isCommand(name string) bool {
	return slices.ContainsFunc(slashes(), func(c slash) bool { return c.name == name })
}

func (c slash) announcement() map[string]any {
	a := map[string]any{"name": c.name, "description": c.text + " (segno)"}
	if c.hint != "" {
		a["input"] = map[string]any{"hint": c.hint}
	}
	return a
}

// announceCommands offers our commands beside those the agent announced, if it did.
func (s *session) announceCommands() {
	if s.id == "" {
		return // a fork that is not made yet
	}
	var list []json.RawMessage
	_ = json.Unmarshal(s.theirs, &list) // what is no list is none
	list = slices.DeleteFunc(list, func(c json.RawMessage) bool {
		var named struct{ Name string }
		return json.Unmarshal(c, &named) == nil && isCommand(named.Name)
	})
	for _, c := range slashes() {
		list = append(list, acp.Encode(c.announcement()))
	}
	s.say(map[string]any{"sessionUpdate": "available_commands_update", "availableCommands": list})
}

// obey carries a command out and answers the prompt it came as.
func (s *session) obey(m acp.Message, name, args string) {
	if name == "edit" {
		s.edit(m, args)
		return
	}
	ctx, done := s.waiting()
	defer done()
	var text string
	var err error
	for _, c := range slashes() {
		if c.name == name {
			text, err = c.run(s, ctx, args)
		}
	}
	if err != nil {
		text = failed(err)
	}
	s.say(spoken(text + "\n"))
	s.reply(m, map[string]any{"stopReason": "end_turn"})
}

// failed is an error as a user reads it.
func failed(err error) string {
	text := "segno: " + err.Error()
	if hint := segno.HintOf(err); hint != "" {
		text += "\n" + hint
	}
	return text
}

func (s *session) slashCheckpoints(ctx context.Context, _ string) (string, error) {
	list, err := s.checkpoints(ctx)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "No checkpoint yet: the first prompt makes one.", nil
	}
	var b strings.Builder
	for _, c := range list {
		mark := "  "
		if c.Head {
			mark = "@ "
		}
		fmt.Fprintf(&b, "%s%-5s %s  %s  %s\n", mark, c.Name, c.ID[:8], c.when.Local().Format(time.DateTime), c.Title)
	}
	return "```\n" + b.String() + "```", nil
}

func (s *session) slashUndo(ctx context.Context, args string) (string, error) {
	return s.slashTurns(ctx, segno.VerbUndo, args)
}

func (s *session) slashRedo(ctx context.Context, args string) (string, error) {
	return s.slashTurns(ctx, segno.VerbRedo, args)
}

func (s *session) slashTurns(ctx context.Context, verb segno.Verb, args string) (string, error) {
	args, force := forced(args)
	n, err := count(verb, args)
	if err != nil {
		return "", err
	}
	return s.told(s.move(ctx, timeline.MoveRequest{Verb: verb, Turns: n, Force: force}))
}

// forced cuts --force out of a command's arguments.
func forced(args string) (rest string, force bool) {
	words := strings.Fields(args)
	kept := slices.DeleteFunc(words, func(w string) bool { return w == "--force" })
	return strings.Join(kept, " "), len(kept) < len(strings.Fields(args))
}

func (s *session) slashRestore(ctx context.Context, args string) (string, error) {
	args, force := forced(args)
	c, err := s.named(ctx, args)
	if err != nil {
		return "", err
	}
	return s.told(s.move(ctx, timeline.MoveRequest{Verb: segno.VerbRestore, To: c.ID, Name: args, Scope: timeline.ScopeBoth, Force: force}))
}

func (s *session) slashFork(ctx context.Context, args string) (string, error) {
	f, err := s.forkInPlace(ctx, "", args)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("This conversation is now a fork at %s. The original stays as it is: it is in the list of sessions, and /switch %s returns to it.",
		turnName(f.From), f.From.Thread[:8]), nil
}

// count reads how many turns a command is about.
func count(verb segno.Verb, args string) (int, error) {
	if args == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(args)
	if err != nil || n < 1 {
		return 0, segno.NewError(segno.KindInvalid, string(verb), args, nil).WithHint("Give a number of turns.")
	}
	return n, nil
}

// move makes a move on the session's thread. The agent's session follows at the next
// prompt.
func (s *session) move(ctx context.Context, ask timeline.MoveRequest) (*timeline.MoveResult, error) {
	site, err := s.moveSite(ctx)
	if err != nil {
		return nil, err
	}
	if s.page.Unheard && ask.Verb != segno.VerbRedo && !ask.Force {
		return nil, segno.Errorf(segno.KindRefused, string(ask.Verb), "", "the agent does not show the turns from before segno, so a session that goes back would not know of them").WithHint("Use --force to go back without them.")
	}
	ask.Thread = s.thread
	moved, err := site.Move(ctx, ask, nil)
	if moved != nil {
		s.story, s.tell = nil, nil
	}
	return moved, err
}

// moveSite is the site for a move: a thread that has had a turn.
func (s *session) moveSite(ctx context.Context) (*timeline.Timeline, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	if s.thread == "" {
		return nil, segno.NewError(segno.KindNotFound, "find checkpoint", "", errNoTurn).WithHint("The first prompt makes one.")
	}
	return s.site(ctx)
}

var errNoTurn = fmt.Errorf("this conversation has no checkpoint yet")

// told is what a user hears of a move.
func (s *session) told(moved *timeline.MoveResult, err error) (string, error) {
	if err != nil {
		return "", err
	}
	p := moved.Plan
	var b strings.Builder
	fmt.Fprintf(&b, "%s: the conversation and the files stand at %s; %s written.", p.Verb, turnName(moved.Head), paths(moved.Files))
	if len(p.Turns) > 0 {
		slices.Sort(p.Turns)
		names := make([]string, len(p.Turns))
		for i, n := range p.Turns {
			names[i] = fmt.Sprintf("t%d", n)
		}
		fmt.Fprintf(&b, " Turns: %s.", strings.Join(names, ", "))
	}
	for _, step := range p.Steps {
		if step.Merged {
			fmt.Fprintf(&b, "\n- merged with what was changed since: %s", segno.QuotePath(step.Path))
		}
	}
	for _, c := range append(slices.Clone(p.Conflicts), p.Kept...) {
		fmt.Fprintf(&b, "\n- left as it is: %s (%s)", segno.QuotePath(c.Path), c.Why)
	}
	if len(p.Conflicts) > 0 && (p.Verb == segno.VerbUndo || p.Verb == segno.VerbRedo) {
		fmt.Fprintf(&b, "\nTo write over what is in conflict, type /%s --force.", p.Verb)
	}
	if p.Git != "" {
		fmt.Fprintf(&b, "\nThe repository's HEAD moved meanwhile; to follow: %s", p.Git)
	}
	return b.String(), nil
}

func paths(n int) string {
	if n == 1 {
		return "1 path"
	}
	return fmt.Sprintf("%d paths", n)
}

// turnName is how people call a checkpoint.
func turnName(c *segno.Checkpoint) string {
	if c == nil || c.Turn == 0 {
		return "the beginning"
	}
	return fmt.Sprintf("t%d", c.Turn)
}

// edit takes a turn and all after it back and sends the new text in its place.
func (s *session) edit(m acp.Message, args string) {
	ctx, done := s.waiting()
	which, text := cutWord(args)
	err := s.backBefore(ctx, which, text)
	done()
	if err != nil {
		s.say(spoken(failed(err) + "\n"))
		s.reply(m, map[string]any{"stopReason": "end_turn"})
		return
	}
	edited, err := withText(m, text)
	if err != nil {
		s.fail(m, err)
		return
	}
	s.run(edited, text)
}

// backBefore restores what stood before a turn.
func (s *session) backBefore(ctx context.Context, which, text string) error {
	if text == "" {
		return segno.Errorf(segno.KindInvalid, "edit", "", "it needs a turn and a text").WithHint("Type /edit 2 and the new text.")
	}
	if _, err := strconv.Atoi(which); err == nil {
		which = "t" + which
	}
	c, err := s.named(ctx, which)
	if err != nil {
		return err
	}
	if c.Kind != segno.CheckpointTurn {
		return segno.Errorf(segno.KindInvalid, "edit", which, "it is no turn").WithHint("Type /checkpoints to see the turns.")
	}
	_, err = s.moveBefore(ctx, c, which, false)
	return err
}

// moveBefore goes to what stood before a turn. The files of a turn from before segno are
// not recorded: all turns down to it are undone, and the files keep what is not known.
func (s *session) moveBefore(ctx context.Context, turn *segno.Checkpoint, called string, force bool) (*timeline.MoveResult, error) {
	if turn.Workspace != nil {
		return s.move(ctx, timeline.MoveRequest{Verb: segno.VerbRestore, To: turn.Parent, Name: called + "-", Scope: timeline.ScopeBoth, Force: force})
	}
	list, err := s.checkpoints(ctx)
	if err != nil {
		return nil, err
	}
	turns := 0
	for _, c := range list {
		if c.Kind == string(segno.CheckpointTurn) && !c.Ahead && c.Turn >= turn.Turn {
			turns++
		}
	}
	return s.move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: turns, Force: force})
}

// withText is a prompt with another text; what it has beside text stays.
func withText(m acp.Message, text string) (acp.Message, error) {
	prompt := m.Find(m.Params, "prompt")
	blocks := []string{string(acp.Encode(map[string]any{"type": "text", "text": text}))}
	m.Elements(prompt, func(block acp.Span) {
		if m.Text(m.Find(block, "type")) != "text" {
			blocks = append(blocks, string(block.Of(m.Line)))
		}
	})
	return acp.Parse(m.Splice(acp.Edit{At: prompt, With: []byte("[" + strings.Join(blocks, ",") + "]")}))
}
