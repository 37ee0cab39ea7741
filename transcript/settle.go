package transcript

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

const opSettle = "wait for transcript"

// AwaitMessage waits until the transcript holds the agent's last message: a hook at a
// turn's end is called before that is written. It looks behind the offset since.
// The same text said earlier in the turn counts, too: what is captured then may end
// before the turn does, and the next capture holds the rest. An empty message is
// there already. The error has [segno.KindCancelled] if ctx
// ends first.
func (c *Claude) AwaitMessage(ctx context.Context, src segno.Source, lastMessage string, since int64) error {
	want := strings.TrimSpace(lastMessage)
	if want == "" {
		return nil
	}
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := c.look(ctx, &src, want, &since)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && segno.KindOf(err) != segno.KindNotFound {
			return ioError(opSettle, src.Path, err)
		}
		if found {
			return nil
		}
		select {
		case <-ctx.Done():
			return ioError(opSettle, src.Path, ctx.Err())
		case <-tick.C:
		}
	}
}

// look reads the whole lines behind since and moves it past them.
func (c *Claude) look(ctx context.Context, src *segno.Source, want string, since *int64) (bool, error) {
	at, err := c.locate(ctx, opSettle, *src)
	if err != nil {
		return false, err
	}
	*src = at
	f, err := openRegular(src.Path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Size() <= *since {
		return false, err
	}
	l := newLines(io.NewSectionReader(f, *since, fi.Size()-*since), *since)
	var s scanner
	var r record
	for {
		at, ok := l.next()
		if !ok {
			_, err := l.close()
			return false, err
		}
		*since = l.offset
		if s.parse(at.bytes, &r) != nil || r.kind != kindAssistant || r.sidechain {
			continue
		}
		if strings.TrimSpace(spoken(field(r.message, "content"), "\n")) == want {
			return true, nil
		}
	}
}
