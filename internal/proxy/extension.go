package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/timeline"
)

// extension serves the methods for clients that have buttons for what the slash
// commands do: _segno/checkpoints, _segno/undo, _segno/redo, _segno/restore,
// _segno/edit, _segno/fork, _segno/threads and _segno/switch. docs/acp.md has their params and results.
func (s *session) extension(m acp.Message) {
	ctx, done := s.waiting()
	defer done()
	result, err := s.extend(ctx, strings.TrimPrefix(m.MethodName(), "_segno/"), m)
	if err != nil {
		s.fail(m, err)
		return
	}
	s.reply(m, result)
}

func (s *session) extend(ctx context.Context, verb string, m acp.Message) (any, error) {
	p := arguments{Turns: 1}
	if err := p.read(m, verb); err != nil {
		return nil, err
	}
	switch verb {
	case "checkpoints":
		list, err := s.checkpoints(ctx)
		if list == nil {
			list = []listed{}
		}
		return map[string]any{"thread": s.thread, "checkpoints": list}, err
	case "undo", "redo":
		return moved(s.move(ctx, timeline.MoveRequest{Verb: segno.Verb(verb), Turns: p.Turns, Force: p.Force}))
	case "restore":
		c, err := s.named(ctx, p.To)
		if err != nil {
			return nil, err
		}
		return moved(s.move(ctx, timeline.MoveRequest{Verb: segno.VerbRestore, To: c.ID, Name: p.To, Scope: timeline.ScopeBoth, Force: p.Force}))
	case "edit":
		c, err := s.named(ctx, fmt.Sprintf("t%d", p.Turn))
		if err != nil {
			return nil, err
		}
		return moved(s.moveBefore(ctx, c, name(c), p.Force))
	case "threads":
		list, err := s.threads(ctx)
		return map[string]any{"thread": s.thread, "threads": append([]segno.Thread{}, list...)}, err
	case "switch":
		t, err := s.switchTo(ctx, p.Thread)
		return map[string]any{"thread": t.ID, "title": t.Title}, err
	case "fork":
		f, err := s.forkInPlace(ctx, p.To, p.Name)
		if err != nil {
			return nil, err
		}
		return map[string]any{"thread": f.Thread, "from": f.From.Thread, "at": f.From.ID, "turn": f.From.Turn}, nil
	}
	return nil, &acp.Error{Code: acp.CodeMethodNotFound, Message: fmt.Sprintf("%q: Method not found", "_segno/"+verb)}
}

// arguments are what a request of segno's own takes.
type arguments struct {
	Turns int    `json:"turns"`
	To    string `json:"to"`
	Turn  int    `json:"turn"`
	Name  string `json:"name"`
	Force bool   `json:"force"`

	Thread string `json:"thread"`
}

// read reads the arguments of a request. The error names the one that is wrong.
func (p *arguments) read(m acp.Message, verb string) error {
	wrong := func(format string, args ...any) error {
		return segno.Errorf(segno.KindInvalid, verb, "", format, args...)
	}
	err := m.Decode(m.Params, p)
	if bad := new(json.UnmarshalTypeError); errors.As(err, &bad) {
		field := cmp.Or(bad.Field, "params")
		what := map[reflect.Kind]string{reflect.Int: "a whole number", reflect.String: "a string", reflect.Bool: "true or false"}[bad.Type.Kind()]
		return wrong("%s must be %s, not %s", field, cmp.Or(what, "an object"), excerpt(m.Find(m.Params, field).Of(m.Line)))
	}
	switch {
	case err != nil:
		return wrong("%w", err)
	case (verb == "undo" || verb == "redo") && p.Turns < 1:
		return wrong("turns must be at least 1, not %d", p.Turns)
	case verb == "edit" && p.Turn < 1:
		return wrong("turn must be the number of a turn, not %d", p.Turn)
	case verb == "restore" && p.To == "":
		return wrong("to must name a checkpoint")
	case verb == "switch" && p.Thread == "":
		return wrong("thread must name a thread")
	}
	return nil
}

// moved is the result of a move.
func moved(mv *timeline.MoveResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	conflicts := append([]segno.Conflict{}, mv.Plan.Conflicts...)
	return map[string]any{"head": mv.Head.ID, "turn": mv.Head.Turn, "turns": append([]int{}, mv.Plan.Turns...), "files": mv.Files,
		"conflicts": conflicts, "kept": append([]segno.Conflict{}, mv.Plan.Kept...), "git": mv.Plan.Git}, nil
}
