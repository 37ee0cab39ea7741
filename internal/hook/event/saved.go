package event

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// maxSaved is the size of the files that are saved after a call, together. The agent waits for the hook, which takes twice as
// long for this size as for no file.
const maxSaved = 192 << 10

// NoStepsArg is the last argument of a hook's command if the user does not want points inside turns.
const NoStepsArg = "--no-steps"

// hasBegun is implemented by a spool that can return the beginning of an open turn quickly.
type hasBegun interface {
	Begun(key segno.TurnKey) (*timeline.OpenTurn, error)
}

// saveFiles saves the states of the files that a call wrote, if its tool writes only the files that its input names.
// ended is the entry of the call's end.
func (r Recorder) saveFiles(ctx context.Context, p Payload, key segno.TurnKey, ended segno.Entry) error {
	files := agents.Tool(p.ToolName).Files(p.ToolInput)
	s, ok := r.Spool.(hasBegun)
	if r.NoSteps || !ok || len(files) == 0 || len(files) > maxFiles {
		return nil
	}
	turn, err := s.Begun(key)
	if err != nil || turn == nil || turn.Before == nil {
		return err
	}
	left := int64(maxSaved)
	call := timeline.SavedCall{Call: timeline.SavedName(ended.ID, ended.Time)}
	for i, file := range files {
		if !filepath.IsAbs(file) {
			file = filepath.Join(cmp.Or(p.Cwd, turn.Source.Dir), file)
		}
		for _, name := range placesOf(file) {
			rel, isInside := strings.CutPrefix(name, turn.Before.Root+"/")
			if !isInside {
				continue
			}
			state, err := workspace.ReadPath(turn.Before.Root, rel, []string{r.Store}, turn.Start, turn.Rules, left)
			if err != nil {
				state.Entity = segno.Entity{Type: segno.EntityProtected, Why: err.Error()}
			}
			left -= int64(len(state.Content))
			call.Files = append(call.Files, timeline.SavedFile{Path: []byte(rel), Entity: state.Entity, Changed: state.Changed, Named: i, Content: state.Content})
		}
	}
	if len(call.Files) == 0 {
		return nil
	}
	return r.Spool.AppendSaved(ctx, key, call)
}

// placesOf returns the real paths of a name: of a symlink, its own path and that of its target.
func placesOf(file string) []string {
	return slices.Compact([]string{filepath.Join(vfs.RealPath(filepath.Dir(file)), filepath.Base(file)), vfs.RealPath(file)})
}
