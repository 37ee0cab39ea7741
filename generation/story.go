package generation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/vfs"
)

// storyFile is in the directory of a run. It contains the attempt's reports about its world, one on each line. These
// are the story of the world or, if the world has no story, the last output line of each agent in each turn.
const storyFile = "story.txt"

// storyWriter writes the story of one attempt.
type storyWriter struct {
	file vfs.File
	lost bool // a write failed, and the user knows
}

// openStory begins the story where the checkpoint ended. If the world can report events before the checkpoint, the
// first lines are about these events.
func (a *attempt) openStory(s segno.WorldSnapshot) (err error) {
	a.kept.file, err = a.FS.OpenFile(filepath.Join(a.dir, storyFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return segno.NewError(segno.KindIO, "open story", a.id, err)
	}
	if a.Story == nil {
		return nil
	}
	a.story = a.Story()
	lines, err := a.story(s.Document) // an earlier attempt has reported them to the user
	a.keep(lines...)
	return err
}

// keep adds lines to the story of the attempt. If that fails, the generation continues without its story.
func (a *attempt) keep(lines ...string) {
	if len(lines) == 0 || a.kept.lost {
		return
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(printable.Inline(line) + "\n")
	}
	_, err := a.kept.file.Write([]byte(b.String()))
	a.reportStory(err)
}

// reportStory reports once that the attempt no longer writes its story.
func (a *attempt) reportStory(err error) {
	if err != nil && !a.kept.lost {
		a.kept.lost = true
		a.event(Event{Kind: EventNoStory, Generation: a.generation, Run: a.id, Tick: a.ticks, Path: a.kept.file.Name(), Error: err.Error()})
	}
}

// tell reports what happened in the world since the last call.
func (a *attempt) tell(s segno.WorldSnapshot) error {
	if a.story == nil {
		return nil
	}
	lines, err := a.story(s.Document)
	for _, line := range lines {
		a.event(Event{Kind: EventStory, Generation: a.generation, Run: a.id, Tick: a.ticks, SimTime: s.Time, Text: line})
	}
	a.keep(lines...)
	return err
}

// keepWords adds the last words of an agent to the story if the world has no story.
func (a *attempt) keepWords(agent, words string) {
	if a.story != nil || words == "" {
		return
	}
	at := fmt.Sprintf("tick %d  ", a.ticks)
	if a.world.Info().Tick == 0 {
		at = a.now.time.String() + " s  "
	}
	a.keep(at + agent + ": " + words)
}

// closeStory ends the story and makes it durable.
func (a *attempt) closeStory() {
	if a.kept.file != nil {
		a.reportStory(errors.Join(a.kept.file.Sync(), a.kept.file.Close()))
	}
}
