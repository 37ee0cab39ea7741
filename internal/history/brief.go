package history

import (
	"context"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// maxPrompt is the number of bytes of a prompt that a brief history keeps.
const maxPrompt = 1 << 10

// ReadBrief is like Read, for a program that keeps the result in memory. The checkpoints have only the fields that a
// list shows: the beginning of the prompt, and the names of the session, the tree and the databases. earlier is an
// older result for the same thread, or nil. If it is given, ReadBrief reads only newer checkpoints from the store.
func ReadBrief(ctx context.Context, store segno.Store, thread segno.ThreadID, earlier *History) (*History, error) {
	return readStable(ctx, store, thread, func(h *History) error {
		h.isBrief, h.prompts = true, map[segno.CommitID]int{}
		if earlier == nil {
			return h.readAll(ctx, store, thread)
		}
		h.newest = earlier.newest
		maps.Copy(h.prompts, earlier.prompts)
		maps.Copy(h.amendments, earlier.amendments)
		amended, err := h.readSince(ctx, store, thread, earlier.newest)
		if err != nil {
			return err
		}
		fresh := len(h.All)
		for i := range earlier.All {
			if !amended[earlier.All[i].ID] {
				h.All = append(h.All, earlier.All[i])
			}
		}
		for i := range h.All {
			h.ByID[h.All[i].ID] = &h.All[i]
		}
		for i := range h.All[:fresh] {
			if h.All[i].Parent, err = h.nearest(ctx, store, h.All[i].Parent); err != nil {
				return err
			}
		}
		for _, at := range []*segno.CommitID{&h.Head.Head, &h.Head.Tip} {
			if *at, err = h.nearest(ctx, store, *at); err != nil {
				return err
			}
		}
		return h.readPins(ctx, store)
	})
}

// nearest returns the nearest checkpoint of h at or below a commit. If there is none, it returns
// the commit.
func (h *History) nearest(ctx context.Context, store segno.Store, id segno.CommitID) (segno.CommitID, error) {
	if id == "" || h.ByID[id] != nil {
		return id, nil
	}
	for n, err := range segno.Ancestors(ctx, store, id, segno.Window{}) {
		if segno.KindOf(err) == segno.KindNotFound && err != nil {
			break
		}
		if err != nil {
			return "", err
		}
		if h.ByID[n.ID] != nil {
			return n.ID, nil
		}
	}
	return id, nil
}

// Revision is the seq of the thread's newest commit. A higher one means that the thread moved.
func (h *History) Revision() int64 { return h.Head.Seq }

// PromptBytes returns the length of a checkpoint's whole prompt.
func (h *History) PromptBytes(c *segno.Checkpoint) int {
	if n, ok := h.prompts[c.ID]; ok {
		return n
	}
	return len(c.Prompt)
}

// shorten removes the parts of a checkpoint that a brief history does not keep.
func (h *History) shorten(c *segno.Checkpoint) {
	if len(c.Prompt) > maxPrompt {
		h.prompts[c.ID] = len(c.Prompt)
		c.Prompt = Cut(c.Prompt, maxPrompt)
	}
	c.Label, c.Agent = Cut(c.Label, maxPrompt), Cut(c.Agent, maxPrompt)
	c.State, c.World, c.Members, c.Meta = nil, nil, nil, nil
	if c.Session != nil {
		c.Session = &segno.Position{Agent: c.Session.Agent, Session: c.Session.Session, Log: c.Session.Log, Sidecars: c.Session.Sidecars}
	}
	if w := c.Workspace; w != nil {
		c.Workspace = &segno.Snapshot{Workspace: w.Workspace, Tree: w.Tree, World: w.World, Held: w.Held, Unread: w.Unread[:min(len(w.Unread), 1)]}
	}
}

// Cut shortens a text to at most n bytes. It does not split a character.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := n
	for end > 0 && n-end < utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	if !utf8.RuneStart(text[end]) {
		end = n // the text is not valid UTF-8
	}
	return strings.Clone(text[:end]) // a slice would keep the whole text in memory
}
