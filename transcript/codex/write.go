package codex

import (
	"context"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const opWrite = "write session"

const (
	// testedVersion is the version of a new session if the home has no session to copy it from.
	testedVersion = "0.171.0"
	// maxResult is the length up to which every version of Codex sends a result to every model unshortened.
	maxResult = 10_000
)

// Losses implements [transcript.ConversationWriter]. Versions that write no ordinals shorten long
// results, whatever limit the lines contain.
func (c *Transcripts) Losses(ctx context.Context, conversation transcript.Conversation) (map[transcript.Loss]int, error) {
	newest, err := c.newestMeta(ctx)
	if err != nil {
		return nil, sessionfile.IOError(opWrite, c.home, err)
	}
	var lost transcript.Conversation
	for _, m := range conversation.Messages {
		for _, p := range m.Parts {
			switch {
			case p.Call != nil && sessionfile.ToolName(p.Call.Name) != p.Call.Name:
				lost.Lose(transcript.LostNames, 1)
			case p.Result != nil:
				if newest != nil && !newest.isPaged && textSize(p.Result.Parts) > maxResult {
					lost.Lose(transcript.LostLengths, 1)
				}
				if p.Result.IsError {
					lost.Lose(transcript.LostErrors, 1)
				}
			}
		}
	}
	return lost.Lost, nil
}

func textSize(parts []transcript.Part) (size int) {
	for _, p := range parts {
		size += len(p.Text)
	}
	return size
}

// WriteConversation implements [transcript.ConversationWriter]. The new session has ordinals in its
// lines if the newest session of the home has them.
func (c *Transcripts) WriteConversation(ctx context.Context, conversation transcript.Conversation, p *segno.Position, to segno.Target, o segno.Objects) (segno.Source, error) {
	if len(conversation.Messages) == 0 {
		return segno.Source{}, segno.Errorf(segno.KindInvalid, opWrite, string(to.Session), "the conversation has no messages")
	}
	k := &writer{c: c, op: opWrite, session: to.Session, dir: to.Dir, more: &conversation, ids: sessionfile.CallIDs{Prefix: "call_"}}
	if p == nil {
		if err := k.writeNew(ctx, to); err != nil {
			return segno.Source{}, sessionfile.IOError(opWrite, string(to.Session), err)
		}
		return segno.Source{Session: to.Session, Path: k.path, Dir: to.Dir}, nil
	}
	if err := checkCut(*p, to); err != nil {
		return segno.Source{}, err
	}
	before, err := c.ReadConversation(ctx, *p, "", o)
	if err != nil {
		return segno.Source{}, err
	}
	k.ids.Use(before) // Codex keeps one result of calls that have the same id
	err = sessionfile.FirstCopy(ctx, opWrite, string(p.Session), c.copies(ctx, opWrite, p, o), func(from sessionfile.CopySource) (readErr, doErr error) {
		return k.write(ctx, from)
	})
	return segno.Source{Session: to.Session, Path: k.path, Dir: to.Dir}, err
}

// writeNew writes a session that begins with the conversation.
func (k *writer) writeNew(ctx context.Context, to segno.Target) error {
	if !filepath.IsAbs(to.Dir) {
		return segno.Errorf(segno.KindInvalid, k.op, string(to.Session), "the directory is not absolute")
	}
	if err := checkNewSession(k.op, to.Session); err != nil {
		return err
	}
	line, err := k.c.newMeta(ctx, to, k.more.Messages[0].Time)
	if err != nil {
		return err
	}
	m, err := parseMeta(line)
	if err != nil {
		return err
	}
	defer func() {
		if k.out != nil {
			k.out.Close()
		}
	}()
	if err := k.create(ctx, &m); err != nil {
		return err
	}
	if _, err := k.out.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := k.appendConversation(&m, 0); err != nil {
		return err
	}
	return k.publish()
}

// wireMeta is the payload of the first line of a rollout.
type wireMeta struct {
	SessionID  string `json:"session_id,omitempty"`
	ID         string `json:"id"`
	Timestamp  string `json:"timestamp"`
	Cwd        string `json:"cwd"`
	Originator string `json:"originator"`
	Version    string `json:"cli_version"`
	Source     string `json:"source"`
	Provider   string `json:"model_provider,omitempty"`
	Mode       string `json:"history_mode,omitempty"`
}

// newMeta returns the first line of a new session. It copies the model provider of the newest session,
// because Codex lists only sessions of its current provider.
func (c *Transcripts) newMeta(ctx context.Context, to segno.Target, at time.Time) ([]byte, error) {
	newest, err := c.newestMeta(ctx)
	if err != nil {
		return nil, err
	}
	if at.IsZero() {
		at = time.Now()
	}
	payload := wireMeta{ID: string(to.Session), Timestamp: sessionfile.Timestamp(at), Cwd: to.Dir, Originator: "codex_cli_rs", Version: testedVersion, Source: "cli"}
	if newest == nil || newest.isPaged {
		payload.SessionID, payload.Mode = payload.ID, "paginated"
	}
	if newest != nil {
		payload.Version, payload.Provider = newest.version, textAt(newest.line, "payload", "model_provider")
	}
	l := lineWriter{isPaged: payload.Mode != ""}
	return l.encode("session_meta", payload, at)
}

// newestMeta returns the first line of the newest session that has a readable one, nil if there is none.
func (c *Transcripts) newestMeta(ctx context.Context) (*meta, error) {
	x, err := readIndex(ctx, c.home)
	if err != nil {
		return nil, err
	}
	var found *meta
	name := ""
	for _, r := range x.byID {
		base := filepath.Base(r.path)
		if base <= name || ctx.Err() != nil {
			continue
		}
		if p, m, err := openPiece(ctx, r, -1); err == nil {
			p.Close()
			found, name = &m, base
		}
	}
	return found, ctx.Err()
}
