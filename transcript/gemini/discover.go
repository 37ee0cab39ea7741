package gemini

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var (
	_ transcript.Discovery    = (*Transcripts)(nil)
	_ transcript.Restorer     = (*Transcripts)(nil)
	_ transcript.TurnCapturer = (*Transcripts)(nil)
)

const opList = "list sessions"

// Sessions yields the sessions of all directories, each with its largest file. If several files are equally large, it
// takes the newest. It reads the first line of each file, because the name has only the beginning of the session's id.
func (c *Transcripts) Sessions(ctx context.Context) iter.Seq2[transcript.SessionFile, error] {
	return func(yield func(transcript.SessionFile, error) bool) {
		found := map[segno.SessionID]transcript.SessionFile{}
		var failed []error
		err := c.files(func(path, _ string) {
			f, err := fileOf(path)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				failed = append(failed, err)
			case isBetter(f, found[f.Session]):
				found[f.Session] = f
			}
		})
		if err != nil {
			failed = append(failed, sessionfile.IOError(opList, c.home, err))
		}
		for _, err := range failed {
			if !yield(transcript.SessionFile{}, err) {
				return
			}
		}
		for _, f := range found {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// isBetter reports whether a file of a session is larger than another one, or equally large and newer.
func isBetter(f, than transcript.SessionFile) bool {
	return f.Bytes > than.Bytes || f.Bytes == than.Bytes && f.Modified.After(than.Modified)
}

// fileOf returns the session in a file.
func fileOf(path string) (transcript.SessionFile, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return transcript.SessionFile{}, sessionfile.IOError(opList, path, err)
	}
	if !fi.Mode().IsRegular() {
		return transcript.SessionFile{}, segno.Errorf(segno.KindInvalid, opList, path, "the session is not a plain file")
	}
	id, err := idOf(path)
	if err != nil {
		return transcript.SessionFile{}, segno.Errorf(segno.KindInvalid, opList, path, "its first line has no session id")
	}
	err = sessionfile.CheckSession(opList, id)
	return transcript.SessionFile{Session: id, Path: path, Bytes: fi.Size(), Modified: fi.ModTime()}, err
}

// Header reads a session of at most the given size whole. For a larger session, it returns only the directory.
func (c *Transcripts) Header(ctx context.Context, file transcript.SessionFile, most int64) (transcript.SessionHeader, error) {
	if file.Bytes > most {
		return transcript.SessionHeader{Dir: ownerOf(filepath.Dir(filepath.Dir(file.Path))), Turns: -1, End: file.Bytes, FromOthers: true}, nil
	}
	s, err := c.read(ctx, "read session", segno.Source{Session: file.Session, Path: file.Path})
	if err != nil {
		return transcript.SessionHeader{}, err
	}
	h := transcript.SessionHeader{Dir: s.Position.Dir, Title: s.title, Turns: len(s.Turns), End: s.end, FromOthers: true}
	if len(s.Turns) == 0 {
		h.End = 0
	} else if h.Title == "" {
		h.Title = strings.TrimSpace(s.Turns[0].Prompt)
	}
	return h, nil
}

// Running returns nothing: Gemini CLI does not show which sessions are open.
func (c *Transcripts) Running(context.Context) map[segno.SessionID]int { return nil }

// Retention returns the user's setting general.sessionRetention, by default 30 days.
func (c *Transcripts) Retention() (age time.Duration, ok bool) {
	const day = 24 * time.Hour
	var settings struct {
		General struct {
			Retention struct {
				Enabled *bool  `json:"enabled"`
				MaxAge  string `json:"maxAge"`
			} `json:"sessionRetention"`
		} `json:"general"`
	}
	if data, err := os.ReadFile(filepath.Join(c.home, "settings.json")); err == nil {
		_ = json.Unmarshal(data, &settings) // a file with comments keeps the default
	}
	r := settings.General.Retention
	if r.Enabled != nil && !*r.Enabled {
		return 0, false
	}
	units := map[string]time.Duration{"h": time.Hour, "d": day, "w": 7 * day, "m": 30 * day}
	if n := len(r.MaxAge); n > 1 {
		count, err := strconv.Atoi(r.MaxAge[:n-1])
		if unit := units[r.MaxAge[n-1:]]; err == nil && unit > 0 && count > 0 {
			return time.Duration(count) * unit, true
		}
	}
	return 30 * day, true
}
