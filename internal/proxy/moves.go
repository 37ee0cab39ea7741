package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/timeline"
)

const noCheckpoint = "this conversation has no checkpoint yet"

// moveTimeline adds the thread and the flags of the arguments to a move. It returns the session's
// timeline, or the reason why the thread cannot move.
func (s *session) moveTimeline(ctx context.Context, ask *timeline.MoveRequest, args arguments) (*timeline.Timeline, error) {
	if s.record.Thread == "" {
		return nil, segno.Errorf(segno.KindNotFound, "find checkpoint", "", noCheckpoint).WithHint("The first prompt makes one.")
	}
	if s.record.IncompleteHistory && ask.Verb != segno.VerbRedo && !args.Incomplete {
		return nil, segno.Errorf(segno.KindRefused, string(ask.Verb), "",
			"the agent does not replay the turns from before segno: a rebuilt session would lack them").
			WithHint("Use --incomplete to go back without them.")
	}
	if s.turn == nil {
		if err := s.writeUnsaved(); err != nil {
			return nil, err
		}
	}
	ask.Thread, ask.Force, ask.WhileRunning = s.record.Thread, args.Force, args.WhileRunning
	return s.timeline(ctx)
}

// move makes a move on the session's thread. seen is the plan that the user has read, or nil. The
// agent's session follows at the next prompt.
func (s *session) move(ctx context.Context, ask timeline.MoveRequest, args arguments, seen *timeline.Plan) (reply, *timeline.MoveResult, error) {
	tl, err := s.moveTimeline(ctx, &ask, args)
	if err != nil {
		return reply{}, nil, err
	}
	moved, err := tl.Move(ctx, ask, seen)
	if moved != nil {
		s.story, s.preface = nil, nil
	}
	if err != nil {
		return reply{}, nil, err
	}
	return reply{text: s.describeMove(ctx, tl, moved), result: moveResult(moved.Plan, moved)}, moved, nil
}

// moveResult is the result of a move for a client; moved is nil for a preview.
func moveResult(p *timeline.Plan, moved *timeline.MoveResult) map[string]any {
	result := map[string]any{"turns": append([]int{}, p.Turns...), "files": len(p.Steps),
		"conflicts": append([]segno.Conflict{}, p.Conflicts...), "kept": append([]segno.Conflict{}, p.Kept...), "git": p.Git}
	if moved != nil {
		result["head"], result["turn"], result["files"], result["before"] = moved.Head.ID, moved.Head.Turn, moved.Files, p.Before.Head
	}
	return result
}

// maxRestorePlans limits how often restore plans again because files changed after it listed the
// replaced paths.
const maxRestorePlans = 5

// restore moves to a checkpoint. The checkpoint's files replace the current ones, even where the user or
// another session changed them. The user receives the list of these paths before the move.
func (s *session) restore(ctx context.Context, args arguments) (reply, error) {
	c, err := s.findCheckpoint(ctx, args.To)
	if err != nil {
		return reply{}, err
	}
	ask := timeline.MoveRequest{Verb: segno.VerbRestore, To: c.ID, Name: args.To, Scope: timeline.ScopeBoth}
	tl, err := s.moveTimeline(ctx, &ask, args)
	if err != nil {
		return reply{}, err
	}
	for n := 1; ; n++ {
		plan, replaced, err := tl.PreviewRestore(ctx, ask)
		if err != nil {
			return reply{}, err
		}
		r, moved := reply{result: moveResult(plan, nil)}, (*timeline.MoveResult)(nil)
		if !args.Preview {
			if len(replaced) > 0 {
				s.say(describeReplaced(replaced) + "\n\n")
			}
			r, moved, err = s.move(ctx, ask, args, plan)
		}
		if _, isOutdated := errors.AsType[*timeline.OutdatedError](err); isOutdated && n < maxRestorePlans {
			continue
		}
		if err != nil {
			return reply{}, err
		}
		if r.result.(map[string]any)["replaced"] = append([]string{}, replaced...); moved != nil {
			r.text += fmt.Sprintf("\nThe state before is a checkpoint: /restore %.8s returns to it.", moved.Plan.Before.Head)
		}
		return r, nil
	}
}

// describeReplaced lists the paths at which a restore replaces changes of the user or of another
// session.
func describeReplaced(paths []string) string {
	const most = 50
	var b strings.Builder
	b.WriteString("The restore replaces changes that no turn of this conversation made. They are saved in a checkpoint first:")
	for _, path := range paths[:min(len(paths), most)] {
		b.WriteString("\n- " + segno.QuotePath(path))
	}
	if more := len(paths) - most; more > 0 {
		fmt.Fprintf(&b, "\n- and %d more", more)
	}
	return b.String()
}

// editCommand undoes a turn and all later ones. If the user typed the command, the new text is then
// sent as a prompt.
func (s *session) editCommand(ctx context.Context, args arguments) (reply, error) {
	name := cmp.Or(args.To, fmt.Sprintf("t%d", args.Turn))
	turn, err := s.findCheckpoint(ctx, name)
	if err != nil {
		return reply{}, err
	}
	if turn.Kind != segno.CheckpointTurn {
		return reply{}, segno.Errorf(segno.KindInvalid, "edit", name, "it is not a turn").WithHint("Type /checkpoints to see the turns.")
	}
	if err := s.checkOnLine(ctx, turn, name); err != nil {
		return reply{}, err
	}
	r, _, err := s.move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turn: turn.Turn}, args, nil)
	return r, err
}

// checkOnLine returns an error if a turn is not on the line of the head: it cannot be undone.
func (s *session) checkOnLine(ctx context.Context, turn *segno.Checkpoint, name string) error {
	list, err := s.checkpoints(ctx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(c listedCheckpoint) bool { return c.Kind != string(segno.CheckpointTurn) })
	at := slices.IndexFunc(list, func(c listedCheckpoint) bool { return c.ID == turn.ID })
	hint := fmt.Sprintf("Type /restore %s first.", name)
	switch {
	case at >= 0 && !list[at].Ahead:
		return nil
	case at == 0 || at > 0 && !list[at-1].Ahead:
		hint = "The conversation is at the state before it: send the new text without /edit."
	}
	return segno.Errorf(segno.KindNotFound, "edit", name, "the turn is undone").WithHint(hint)
}

// describeMove describes a move as the command line does. The paths are a list, because clients show the text as
// Markdown.
func (s *session) describeMove(ctx context.Context, tl *timeline.Timeline, moved *timeline.MoveResult) string {
	res, err := moves.NewResult(ctx, tl, moved.Plan, moved)
	if err != nil {
		s.logf("describe a move: %v", err)
	}
	text := moves.Text{Verbose: true}
	text.Moved(moved, res)
	lines := text.Lines()
	for i := range lines[1:] {
		lines[i+1] = "- " + strings.TrimSpace(lines[i+1])
	}
	return strings.Join(lines, "\n")
}

// turnName is a checkpoint's name in messages to the user.
func turnName(c *segno.Checkpoint) string {
	if c == nil || c.Turn == 0 {
		return "the beginning"
	}
	return fmt.Sprintf("t%d", c.Turn)
}
