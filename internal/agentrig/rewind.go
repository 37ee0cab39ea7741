package agentrig

import (
	"context"
	"slices"
	"strings"
)

// Restore is what a rewind brings back, in the order the agent lists it.
type Restore int

// The choices of a rewind for a prompt after which files were changed.
const (
	RestoreBoth Restore = iota
	RestoreConversation
	RestoreCode
)

const confirmation = "Confirm you want to restore"

// Rewind goes back to before the prompt that is back prompts from the newest (1 is
// the newest itself), with /rewind, and leaves the input line empty. A prompt with
// no changed files after it only offers [RestoreConversation], as its first choice.
func (t *TUI) Rewind(ctx context.Context, back int, what Restore) error {
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
	shown, err := t.WaitFor(ctx, func(s string) bool { return strings.Contains(s, confirmation) })
	if err != nil {
		return err
	}
	moves := []Key{Down, Up} // to the first choice, proving that the list listens
	if strings.Contains(shown, "Restore code and conversation") && what != RestoreBoth {
		moves = slices.Repeat([]Key{Down}, int(what))
	}
	for _, k := range moves {
		if err := t.choose(ctx, k); err != nil {
			return err
		}
	}
	if err := t.Press(Enter); err != nil {
		return err
	}
	// The old prompt comes back into the input line a moment after the dialog goes,
	// unless the conversation stays as it is.
	_, err = t.WaitFor(ctx, func(s string) bool {
		return !strings.Contains(s, confirmation) && ready(s) && (what == RestoreCode || filled(s))
	})
	if err != nil {
		return err
	}
	return t.Clear(ctx)
}

// choose presses an arrow key and waits until another line is marked.
func (t *TUI) choose(ctx context.Context, k Key) error {
	was := marked(t.Screen())
	return t.pressUntil(ctx, k, func(s string) bool { return marked(s) != was })
}
