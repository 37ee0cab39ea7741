// Package segnogenkit keeps the sessions and the flows of Genkit (github.com/firebase/genkit/go) in a store of segno.
//
// [Sessions] is a session.Store in which every Save is a version. [Durable] makes a flow of which each step of [Run] is
// saved: after a crash, the same call continues behind the last step. [Ask] waits for an answer, over restarts.
//
// Each session, and each run of a durable flow, is a thread of [saver.New] on the same store: its History, Undo, Restore
// and Fork apply. A fork of a flow's thread continues from that step when the flow is called for the fork's id.
package segnogenkit

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"github.com/firebase/genkit/go/core/x/session"
)

// Sessions is a session.Store on a store of segno.
//
// Genkit's interface has no version. Save follows the version that this Sessions last read or wrote for the id. If
// there is a newer one, of another process or of another Sessions, Save returns [segno.KindConflict] and writes nothing;
// load the session again. A Sessions is small: requests that may change a session at the same time each need their own.
type Sessions[S any] struct {
	saver *saver.StoreSaver

	mu   sync.Mutex
	last map[string]saver.Snapshot // by id
}

var _ session.Store[any] = (*Sessions[any])(nil)

// NewSessions returns the sessions in a store. The caller closes the store.
func NewSessions[S any](store segno.Store) *Sessions[S] {
	return &Sessions[S]{saver: saver.New(store), last: map[string]saver.Snapshot{}}
}

// valueSession is the name of the state value with a session's state.
const valueSession = "genkit.session"

// Get implements session.Store.
func (s *Sessions[S]) Get(ctx context.Context, id string) (*session.Data[S], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.saver.Load(ctx, saver.ThreadKey{Thread: id})
	if err != nil && segno.KindOf(err) != segno.KindNotFound {
		return nil, err
	}
	s.last[id] = at
	value, ok := at.State[valueSession]
	if !ok {
		return nil, nil
	}
	data := &session.Data[S]{ID: id}
	if err := json.Unmarshal(value, &data.State); err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read session", id, err)
	}
	return data, nil
}

// Save implements session.Store. For a state that has no JSON, the error names its type.
func (s *Sessions[S]) Save(ctx context.Context, id string, data *session.Data[S]) error {
	value, err := encode(id, data.State)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.last[id]
	at.ThreadKey = saver.ThreadKey{Thread: id}
	at.State = map[string]json.RawMessage{valueSession: value}
	if at, err = s.saver.Save(ctx, at); err != nil {
		return err
	}
	s.last[id] = at
	return nil
}
