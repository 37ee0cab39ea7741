package agentrig

import (
	"context"
	"strings"
)

// Restore is what a rewind brings back.
type Restore int

// The choices of a rewind.
const (
	RestoreBoth Restore = iota
	RestoreConversation
	RestoreCode
)

// confirming reports whether the agent asks what to restore. Versions differ in the
// sentence, and name the point or ask for a confirmation.
func confirming(screen string) bool {
	return strings.Contains(screen, "Confirm you want to restore") || strings.Contains(screen, "Restore to the point before you sent")
}

// Rewind goes back to before the prompt that is back prompts from the newest (1 is
// the newest itself), with /rewind, and leaves the input line empty. A prompt with
// no changed files after it offers no more than [RestoreConversation].
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
	// The old prompt comes back into the input line a moment after the dialog goes,
	// unless the conversation stays as it is.
	_, err = t.WaitFor(ctx, func(s string) bool {
		return !confirming(s) && ready(s) && (what == RestoreCode || filled(s))
	})
	if err != nil {
		return err
	}
	return t.Clear(ctx)
}

// pick marks a choice of a list by its text. It moves at least once, which proves
// that the list listens.
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
