package pack_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/pack"
)

// TestASessionWhoseObjectIsAlsoAFile packs a thread whose files contain the object that lists its transcript, as a project with a
// store in it has. The archive has the transcript, and the user who imports it can continue the session.
func TestASessionWhoseObjectIsAlsoAFile(t *testing.T) {
	f := newFixture(t)
	f.write(f.project, "a", "one\n")
	f.say("alpha")
	f.checkpoint("other", nil)
	log, err := f.store.Objects().Get(t.Context(), f.prev.Log)
	must(t, err)
	f.write(f.project, ".agent/objects/log", string(log))
	f.prev = nil
	id := f.checkpoint("t", nil)
	name, _ := packThread(t, f.store, "t", pack.Options{})
	r, err := archive.Open(name)
	must(t, err)
	defer r.Close()
	m := newMachine(t)
	dir := filepath.Join(m.dir, "in")
	_, err = m.importer().Thread(t.Context(), r, pack.Into{Dir: dir, TrustSession: true})
	must(t, err)
	for c, err := range m.store.Checkpoints(t.Context(), segno.CheckpointQuery{Limit: 1}) {
		must(t, err)
		id = c.ID
	}
	l, err := m.timeline(dir).RebuildSession(t.Context(), id, dir)
	must(t, err)
	if text, err := os.ReadFile(l.Path); err != nil || !bytes.Contains(text, []byte("alpha")) {
		t.Errorf("the session is %q, %v", text, err)
	}
}
