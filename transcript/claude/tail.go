package claude

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// tailLength is how much of the end of a transcript is searched for the end of a turn and
// for the queue. Both are the last records that the agent writes.
const tailLength = 1 << 20

// readTail calls visit for the records between offset and the end of an open transcript,
// until visit returns false. It returns the offset behind the last line read.
func readTail(f *os.File, offset int64, visit func(*record) bool) (int64, error) {
	fi, err := f.Stat()
	if err != nil || fi.Size() <= offset {
		return offset, err
	}
	l := sessionfile.NewLineReader(io.NewSectionReader(f, offset, fi.Size()-offset), offset)
	var r record
	for at := range l.All() {
		if r.parse(at.Bytes) == nil && !visit(&r) {
			break
		}
	}
	_, err = l.End()
	return l.Offset, err
}

// tailOffset is where the tail of an open transcript begins.
func tailOffset(f *os.File) int64 {
	if fi, err := f.Stat(); err == nil {
		return max(0, fi.Size()-tailLength)
	}
	return 0
}

// poll calls check until it returns true or an error, or until ctx ends.
func poll(ctx context.Context, interval time.Duration, check func() (bool, error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if done, err := check(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// The longest waits of AwaitMessage. The agent usually writes its message within 100 ms of the
// Stop event, but six agents on two cores took over two seconds (Claude Code 2.1.330).
const (
	messageWait   = 10 * time.Second // while the agent has written no text after the newest prompt or result
	otherTextWait = time.Second      // after the agent wrote another text
)

// AwaitMessage waits until the transcript has the agent's last message behind the offset
// since. A hook at the end of a turn calls it, because the agent runs the hook before it
// writes the message. An earlier message of the turn with the same text counts, too: then
// the following capture may end before the turn does, and the next one gets the rest.
// AwaitMessage returns at once for an empty message. The error has
// [segno.KindCancelled] if ctx ends first, and after ten seconds, because a busy machine delays
// the agent's records by seconds. AwaitMessage gives up after one second without a
// transcript, and after the agent wrote another text: an agent that writes its answer in
// pieces never writes the whole message.
func (c *Transcripts) AwaitMessage(ctx context.Context, src segno.Source, message string, since int64) error {
	const op = "wait for transcript"
	message = strings.TrimSpace(message)
	if message == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, messageWait)
	defer cancel()
	var (
		hasText bool         // the conversation ends with a text of the agent
		missing = time.Now() // the last time at which it did not
	)
	err := poll(ctx, 3*time.Millisecond, func() (found bool, err error) {
		f, at, err := c.open(ctx, op, src)
		if err == nil {
			src = at
			since, err = readTail(f, since, func(r *record) bool {
				if r.kind.isMessage() && !r.isSidechain {
					text := strings.TrimSpace(textOf(field(r.message, "content")))
					hasText = r.kind == kindAssistant && text != ""
					found = hasText && text == message
				}
				return !found
			})
			_ = f.Close() // it was only read
		}
		isAbsent := segno.KindOf(err) == segno.KindNotFound
		if err != nil && !isAbsent || found {
			return found, err
		}
		if !hasText && !isAbsent {
			missing = time.Now()
		}
		if time.Since(missing) >= otherTextWait {
			return false, context.DeadlineExceeded
		}
		return false, nil
	})
	return sessionfile.IOError(op, src.Path, err)
}

// Queued returns how many prompts wait in the agent's queue, according to the end of the
// transcript. A prompt leaves the queue when a turn begins with it, when the running turn
// receives it, or when the user edits it.
func (c *Transcripts) Queued(ctx context.Context, src segno.Source) (n int, err error) {
	const op = "read the agent's queue"
	f, src, err := c.open(ctx, op, src)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	_, err = readTail(f, tailOffset(f), func(r *record) bool {
		if string(r.typ) != "queue-operation" {
			return true
		}
		switch jsonscan.Text(r.field("operation")) {
		case "enqueue":
			n++
		case "popAll":
			n = 0
		default:
			n = max(0, n-1)
		}
		return true
	})
	return n, sessionfile.IOError(op, src.Path, err)
}

// interruptMark begins the text of the user record that Claude Code 2.1 writes
// when a turn is interrupted: "[Request interrupted by user]", or "… by user for
// tool use]".
const interruptMark = "[Request interrupted by user"

// markDelay is how long the mark may take to reach the disk once the agent
// shows it: the agent writes its records about every 100 ms.
const markDelay = 300 * time.Millisecond

const markInterval = 20 * time.Millisecond

// Interrupted reports whether the agent recorded that the user interrupted the turn
// of a prompt, or continued with another prompt without the turn's end. In both cases the
// agent calls no hook and keeps running. Interrupted waits a moment for the mark. An empty
// key means the newest prompt that waited in the agent's queue.
func (c *Transcripts) Interrupted(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error) {
	end, err := c.readTurnEnd(ctx, src, key, true)
	return end.isMarked || end.isPassed, err
}

// LastOf returns the time of the newest record of a turn, zero if there is none, and
// whether the turn was interrupted at that time. If it was not and wait is set, LastOf waits
// a moment for the mark.
func (c *Transcripts) LastOf(ctx context.Context, src segno.Source, key segno.TurnKey, wait bool) (at time.Time, interrupted bool, err error) {
	end, err := c.readTurnEnd(ctx, src, key, wait)
	return end.at, end.isMarked, err
}

// AtQuestion reports whether the user interrupted a turn at the question whether the agent
// may use a tool. The agent's mark then names no message that it interrupted.
func (c *Transcripts) AtQuestion(ctx context.Context, src segno.Source, key segno.TurnKey) (bool, error) {
	end, err := c.readTurnEnd(ctx, src, key, false)
	return end.isMarked && end.isRefusal, err
}

// refusalMark begins the text of the record that Claude Code 2.1 writes if a hook refuses a prompt. It writes no record of the prompt.
const refusalMark = "UserPromptSubmit operation blocked by hook"

// IsRefused reports whether a hook refused a prompt since a time, if the end of the transcript has no record of the turn with a key.
func (c *Transcripts) IsRefused(ctx context.Context, src segno.Source, key segno.TurnKey, since time.Time) (refused bool, err error) {
	const op = "look for a refused prompt"
	f, src, err := c.open(ctx, op, src)
	if err != nil {
		return false, err
	}
	defer f.Close()
	isFound := false
	_, err = readTail(f, tailOffset(f), func(r *record) bool {
		isFound = isFound || !r.isSidechain && len(r.promptID) > 0 && string(r.promptID) == string(key)
		if ms, ok := r.time(); ok && r.kind == kindSystem && strings.HasPrefix(jsonscan.Text(r.field("content")), refusalMark) {
			refused = refused || ms >= since.UnixMilli()
		}
		return !isFound
	})
	return refused && !isFound, sessionfile.IOError(op, src.Path, err)
}

// ExpandedAt returns the time of the record of a turn's prompt, if the prompt is a slash command. The agent writes it after it has run the
// commands in the text of the slash command. found is false if there is no record of the prompt.
func (c *Transcripts) ExpandedAt(ctx context.Context, src segno.Source, key segno.TurnKey) (at time.Time, found bool, err error) {
	const op = "look for a slash command"
	f, src, err := c.open(ctx, op, src)
	if err != nil {
		return at, false, err
	}
	defer f.Close()
	find := func(r *record) bool {
		if r.kind != kindUser || r.isMeta || r.isSidechain || string(r.promptID) != string(key) {
			return true
		}
		found = true
		if ms, ok := r.time(); ok && strings.Contains(textOf(field(r.message, "content")), "<command-name>") {
			at = time.UnixMilli(ms)
		}
		return at.IsZero()
	}
	if _, err = readTail(f, tailOffset(f), find); err == nil && at.IsZero() && tailOffset(f) > 0 {
		_, err = readTail(f, 0, find)
	}
	return at, found, sessionfile.IOError(op, src.Path, err)
}

// The beginnings of the records of a command that the user typed after "!", and of its output.
const (
	bashInput  = "<bash-input>"
	bashOutput = "<bash-stdout>"
)

// TypedCommand returns the command with which the user began a turn in the terminal, and the times of its beginning and end. A time is zero if
// the end of the transcript does not show it. TypedCommand gives the agent a moment to write the first record of the turn.
func (c *Transcripts) TypedCommand(ctx context.Context, src segno.Source, key segno.TurnKey) (command string, from, to time.Time, err error) {
	const op = "look for a command of the user"
	f, src, err := c.open(ctx, op, src)
	if err != nil {
		return "", from, to, err
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(ctx, markDelay)
	defer cancel()
	err = poll(ctx, markInterval, func() (isFound bool, err error) {
		_, err = readTail(f, tailOffset(f), func(r *record) bool {
			ms, ok := r.time()
			if !ok || r.kind != kindUser || r.isSidechain || string(r.promptID) != string(key) {
				return true
			}
			isFound = true
			switch text := textOf(field(r.message, "content")); {
			case from.IsZero() && strings.HasPrefix(text, bashInput):
				command, from = strings.TrimSuffix(text[len(bashInput):], "</bash-input>"), time.UnixMilli(ms)
			case !from.IsZero() && strings.HasPrefix(text, bashOutput):
				to = time.UnixMilli(ms)
			}
			return to.IsZero()
		})
		return isFound, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // the session has no record of the turn
	}
	return command, from, to, sessionfile.IOError(op, src.Path, err)
}

// UnreportedPrompt returns the text of the newest prompt of a session if the agent called no hook for it, else "". isOwn is set if the agent
// wrote the prompt itself: after the user accepted a plan and chose to clear the context, Claude Code begins a session with the plan. The
// other such prompt waited in the agent's queue, and its id is key. UnreportedPrompt gives the agent a moment to write the record.
func (c *Transcripts) UnreportedPrompt(ctx context.Context, src segno.Source, key segno.TurnKey) (text string, isOwn bool, err error) {
	const op = "look for a prompt"
	ctx, cancel := context.WithTimeout(ctx, markDelay)
	defer cancel()
	err = poll(ctx, markInterval, func() (isWritten bool, err error) {
		f, _, err := c.open(ctx, op, src)
		if segno.KindOf(err) == segno.KindNotFound {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		defer f.Close()
		_, err = readTail(f, tailOffset(f), func(r *record) bool {
			if r.kind != kindUser || r.isSidechain {
				return true
			}
			hasKey, isContinuation := key != "" && string(r.promptID) == string(key), r.isContinuation()
			isPrompt := isContinuation || r.isSubmitted
			isWritten = isWritten || hasKey || isPrompt && key == ""
			if isPrompt {
				isOwn, text = isContinuation, ""
			}
			if isContinuation || isPrompt && hasKey && r.isQueued() {
				text = textOf(field(r.message, "content"))
			}
			return true
		})
		return isWritten, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // the session has no record of the prompt
	}
	return text, isOwn, sessionfile.IOError(op, src.Path, err)
}

// RunsCommandsFirst reports whether the agent runs commands at the beginning of a call: those in the text of a skill, or the command of git
// that makes the worktree of a subagent. The input of a call may be clipped, and then contains quotes in a string.
func (c *Transcripts) RunsCommandsFirst(tool string, input []byte) bool {
	switch tool {
	case "Skill":
		return true
	case "Agent", "Task":
		return bytes.Contains(bytes.ReplaceAll(input, []byte{'\\'}, nil), []byte(`"isolation":"worktree"`))
	}
	return false
}

// QueuedKey returns the id of the newest prompt that waited in the agent's queue and then began a turn, or "".
func (c *Transcripts) QueuedKey(ctx context.Context, src segno.Source) (segno.TurnKey, error) {
	const op = "read the agent's queue"
	f, src, err := c.open(ctx, op, src)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var s turnSearch
	_, err = readTail(f, tailOffset(f), s.add)
	return s.key, sessionfile.IOError(op, src.Path, err)
}

// turnEnd is how a turn ended according to the end of the transcript.
type turnEnd struct {
	at        time.Time // of its newest record
	isMarked  bool      // that record is the mark of an interruption
	isRefusal bool      // the user interrupted at a question whether to use a tool
	isPassed  bool      // the next turn's prompt follows
}

// readTurnEnd reads how a turn ended. If wait is set, it waits a moment for the mark.
func (c *Transcripts) readTurnEnd(ctx context.Context, src segno.Source, key segno.TurnKey, wait bool) (end turnEnd, err error) {
	const op = "look for an interrupt"
	if src, err = c.resolve(ctx, op, src); err != nil {
		return end, err
	}
	ctx, cancel := context.WithTimeout(ctx, markDelay)
	defer cancel()
	err = poll(ctx, markInterval, func() (bool, error) {
		f, err := vfs.OpenRegular(src.Path)
		if err != nil {
			return false, err
		}
		defer f.Close()
		s := turnSearch{key: key}
		_, err = readTail(f, tailOffset(f), s.add)
		end = s.end
		return end.isMarked || end.isPassed || !wait, err
	})
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = nil // the mark did not come
	}
	return end, sessionfile.IOError(op, src.Path, err)
}

// turnSearch finds the end of a turn in the records of a tail.
type turnSearch struct {
	key      segno.TurnKey // "" for the newest prompt that waited in the agent's queue, or that the agent wrote itself
	isQueued bool          // key belongs to a prompt in the queue
	isFound  bool          // the turn's prompt was found
	end      turnEnd
}

// add adds one record. A prompt that was queued when the user interrupted a turn begins
// the next turn at that moment. The agent writes the mark behind it, with its id.
func (s *turnSearch) add(r *record) bool {
	if r.isSidechain {
		return true
	}
	isQueued := r.isQueued() || r.isContinuation()
	if isQueued && (s.key == "" || s.isQueued) {
		*s = turnSearch{key: segno.TurnKey(jsonscan.Unescape(r.promptID)), isQueued: true}
	}
	isOwn := (s.key != "" || s.isQueued) && string(r.promptID) == string(s.key) // a continuation may have no id
	if s.isFound = s.isFound || isOwn; s.isFound && !s.end.isPassed {
		s.end.add(r, isOwn, isQueued)
	}
	return true
}

// add adds a record from the turn's prompt on. isOwn is set for a record with the turn's key.
func (end *turnEnd) add(r *record, isOwn, isQueued bool) {
	isLast := r.kind == kindAssistant && !end.isMarked
	switch {
	case r.kind != kindUser:
	case isOwn:
		isLast = true
		words := strings.TrimSpace(textOf(field(r.message, "content")))
		end.isMarked = strings.HasPrefix(words, interruptMark)
		end.isRefusal = words == interruptMark+" for tool use]" && r.field("interruptedMessageId") == nil
	case r.isSubmitted && len(r.promptID) > 0:
		end.isPassed = true
		if isQueued && !end.isMarked {
			isLast, end.isMarked = true, true
		}
	}
	if ms, ok := r.time(); isLast && ok {
		end.at = time.UnixMilli(ms)
	}
}
