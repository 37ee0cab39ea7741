package agentrig

import (
	"context"
	"strings"
)

// Restore selects the parts that a rewind restores.
type Restore int

// The choices of a rewind.
const (
	RestoreBoth Restore = iota
	RestoreConversation
	RestoreCode
)

// confirming reports whether the agent asks for the parts to restore. The sentence differs
// between versions: it names the point or asks for a confirmation.
func confirming(screen string) bool {
	return strings.Contains(screen, "Confirm you want to restore") || strings.Contains(screen, "Restore to the point before you sent")
}

// Rewind uses /rewind to go back to the point before a prompt, and leaves the input line
// empty. back counts prompts from the newest, which is 1. For a prompt without changed
// files after it, the agent offers only [RestoreConversation].
func (t *TUI) Rewind(ctx context.Context, back int, what Restore) error {
	choices := map[Restore]string{
		RestoreBoth:         "Restore code and conversation",
		RestoreConversation: "Restore conversation",
		RestoreCode:         "Restore code",
	}
	if err := t.Prompt(ctx, "/rewind"); err != nil {
		return err
	}
	if err := t.WaitText(ctx, "Enter to continue"); err != nil {
		return err
	}
	for range back {
		if err := t.choose(ctx, Up); err != nil {
			return err
		}
	}
	if err := t.Press(Enter); err != nil {
		return err
	}
	shown, err := t.WaitFor(ctx, confirming)
	if err != nil {
		return err
	}
	if !strings.Contains(shown, choices[RestoreBoth]) {
		what = RestoreConversation
	}
	if err := t.pick(ctx, choices[what]); err != nil {
		return err
	}
	if err := t.Press(Enter); err != nil {
		return err
	}
	// The old prompt appears in the input line a moment after the dialog disappears, unless
	// the conversation stays unchanged.
	_, err = t.WaitFor(ctx, func(s string) bool {
		return !confirming(s) && ready(s) && (what == RestoreCode || filled(s))
	})
	if err != nil {
		return err
	}
	return t.Clear(ctx)
}

// pick marks a choice of a list by its text. It moves at least once, which proves that the
// list handles keys.
func (t *TUI) pick(ctx context.Context, choice string) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	for {
		if err := t.choose(ctx, Down); err != nil {
			return err
		}
		if strings.HasSuffix(strings.TrimSpace(marked(t.Screen())), ". "+choice) {
			return nil
		}
	}
}

// choose presses an arrow key and waits until another line is marked.
func (t *TUI) choose(ctx context.Context, k Key) error {
	was := marked(t.Screen())
	return t.pressUntil(ctx, k, func(s string) bool { return marked(s) != was })
}
