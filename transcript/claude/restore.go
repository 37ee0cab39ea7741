package claude

import (
	"cmp"
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var _ transcript.Restorer = (*Transcripts)(nil)

// Restore writes back a session that the agent deleted, under its own id and byte for byte: the
// transcript up to p and its sidecars. The session runs in dir. If the agent still has a sidecar
// with other bytes, the error is [segno.KindConflict], because Restore replaces no file of the agent.
func (c *Transcripts) Restore(ctx context.Context, p segno.Position, dir string, o segno.Objects) (segno.Source, error) {
	const op = "restore session"
	k := &restoration{cut{installer: installer{c: c, op: op}, p: p, to: segno.Target{Session: p.Session, Dir: dir}, objects: o}}
	k.p.Path = "" // the agent's file is gone; the bytes come from the store
	err := k.check()
	if err == nil {
		err = k.install(ctx, p.Session, k)
	}
	if err != nil {
		return segno.Source{}, sessionfile.IOError(op, string(p.Session), err)
	}
	return segno.Source{Session: p.Session, Path: k.path, Dir: dir}, nil
}

// restoration is a session as it was captured.
type restoration struct{ cut }

func (k *restoration) check() error {
	if k.p.Offset <= 0 || k.p.Log.IsZero() || k.objects == nil {
		return segno.Errorf(segno.KindInvalid, k.op, string(k.p.Session), "the store has no bytes of it")
	}
	_, err := k.findTarget() // publish compares the bytes of a file that is there
	return err
}

func (k *restoration) writeTranscript(ctx context.Context) error {
	copies := k.c.copies(k.op, &k.p, k.objects) // the last one is the store's
	readErr, writeErr := copies[len(copies)-1].EachLine(ctx, func(l sessionfile.Line) error {
		_, err := k.out.Write(l.Bytes)
		return err
	})
	return cmp.Or(writeErr, readErr)
}
